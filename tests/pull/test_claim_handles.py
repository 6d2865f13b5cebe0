"""Claims as remote workers hold them: sealed for one tenant's queue, and never made up."""

from __future__ import annotations

from dataclasses import replace

from millrace.pull.claim_handles import Handles
from millrace.pull.service import PullService
from tests.conftest import Clock
from tests.pull.calling import Caller

JOBS = "/v1/queues/Jobs"


def test_a_claim_is_good_for_its_own_tenant_and_queue_only(call: Caller, service: PullService, tenant: str) -> None:
    call.enqueue()
    (held,) = call.dequeue()
    other = Caller(call.api, f"{tenant}x")
    assert other("POST", f"{JOBS}/ack", {"claim": held["claim"]}).status == 400
    assert call("POST", "/v1/queues/Wide/ack", {"claim": held["claim"]}).status == 400
    head, payload, seal = held["claim"].split(".")
    changed = payload[:-2] + ("AA" if payload[-2:] != "AA" else "BB")
    assert call("POST", f"{JOBS}/ack", {"claim": f"{head}.{changed}.{seal}"}).status == 400
    assert call("POST", f"{JOBS}/ack", {"claim": held["claim"]}).status == 200


def test_a_claim_knows_when_its_lease_ends(call: Caller, service: PullService, tenant: str, clock: Clock) -> None:
    """Or a store that gets no answer to its first try could not tell the ack's own effect from another's."""
    call.enqueue()
    (held,) = call.dequeue(lease_ms=5_000)
    entry = service.handles.read(service.queue(tenant, "Jobs"), held["claim"]).entry
    assert entry.until == clock() + 5_000


def test_an_extended_claim_is_answered_with_a_handle_that_knows_its_new_end(
    call: Caller, service: PullService, tenant: str, clock: Clock
) -> None:
    call.enqueue()
    (held,) = call.dequeue(lease_ms=5_000)
    clock.forward(4_000)
    extended = call("POST", f"{JOBS}/extend", {"claim": held["claim"], "lease_ms": 60_000}).json
    entry = service.handles.read(service.queue(tenant, "Jobs"), extended["claim"]).entry
    assert entry.until == clock() + 60_000
    assert call("POST", f"{JOBS}/ack", {"claim": extended["claim"]}).status == 200


def test_an_ack_after_an_extend_whose_answer_was_lost_is_recognised(call: Caller, clock: Clock) -> None:
    """Without a kept result only the lease says whose ack it was: that of the dequeue has long run out."""
    path = "/v1/queues/Forgetful"
    assert call("POST", f"{path}/messages", {"body": 1}).status == 202
    (held,) = call("POST", f"{path}/dequeue", {"lease_ms": 5_000}).json["messages"]
    extended = call("POST", f"{path}/extend", {"claim": held["claim"], "lease_ms": 60_000}).json
    clock.forward(30_000)
    assert call("POST", f"{path}/ack", {"claim": extended["claim"]}).status == 200
    assert call("POST", f"{path}/ack", {"claim": held["claim"]}).status == 409
    assert call("POST", f"{path}/ack", {"claim": extended["claim"]}).status == 200


def test_a_claim_cannot_be_made_up(call: Caller, service: PullService, tenant: str) -> None:
    """A holder that swaps the message id in its own claim must not reach another message's records."""
    call.enqueue()
    queue = service.queue(tenant, "Jobs")
    (held,) = call.dequeue()
    entry = service.handles.read(queue, held["claim"]).entry
    forged = Handles(lambda: b"guessed").write(queue, replace(entry, id="victim"), None)
    assert call("POST", f"{JOBS}/ack", {"claim": forged}).status == 400
    assert call("GET", f"{JOBS}/state", headers={"X-Millrace-Claim": forged}).status == 400
