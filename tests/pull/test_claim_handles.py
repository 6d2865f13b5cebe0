"""Claims as remote workers hold them: sealed for one tenant's queue, and never made up."""

from __future__ import annotations

from dataclasses import replace

from millrace.engine.claim import Claim
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


def test_a_claim_cannot_be_made_up(call: Caller, service: PullService, tenant: str) -> None:
    """A holder that swaps the message id in its own claim must not reach another message's records."""
    call.enqueue()
    queue = service.queue(tenant, "Jobs")
    (held,) = call.dequeue()
    entry = service.handles.read(queue, held["claim"]).entry
    message = service.runtime.store.get_messages([entry.id])[entry.id]
    forged = Handles(lambda: b"guessed").write(queue, Claim(replace(entry, id="victim"), message))
    assert call("POST", f"{JOBS}/ack", {"claim": forged}).status == 400
    assert call("GET", f"{JOBS}/state", headers={"X-Millrace-Claim": forged}).status == 400
