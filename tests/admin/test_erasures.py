"""Erasures over HTTP: whose messages, wherever they are, are forgotten; what is counted, told and kept."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from millrace.admin.erasures import REMAINS
from millrace.admin.service import AdminService
from millrace.engine.claim import Claim, claim
from millrace.engine.dead_letters import list_dead_letters, replay
from millrace.engine.enqueue import enqueue
from millrace.engine.filtered import record_filtered
from millrace.engine.finish import RunFailure, ack, reject, release
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.model.audit import EVERY_EVENT, list_audit_events
from millrace.model.body import INLINE_LIMIT
from millrace.model.errors import StaleClaim
from millrace.model.message import Draft
from millrace.model.queue_samples import sample_of
from tests.admin.calling import Caller
from tests.conftest import Clock
from tests.engine.steps import only

ALICE = "alice@example.com"
LARGE = Random(9).randbytes(INLINE_LIMIT + 1)
ERASURES = "/admin/erasures"


class Killed(BaseException):
    """The process is gone."""


def take(queue: Queue, message_id: str, lease_ms: int = 600_000) -> Claim:
    """This one, whatever else there is."""
    claims = claim(queue, owner="w", limit=100, lease_ms=lease_ms).claims
    release(queue, [one.entry for one in claims if one.entry.id != message_id])
    (mine,) = (one for one in claims if one.entry.id == message_id)
    return mine


def lives(queue: Queue, **more: Any) -> dict[str, str]:
    """A message in each part of its life, by its status."""

    def sent(body: bytes = b"x", **rest: Any) -> str:
        return enqueue(queue, Draft(body, **{**more, **rest})).message_id

    found = {"done": sent(LARGE)}
    assert ack(queue, [take(queue, found["done"]).entry], [b"r"]) == [None]
    found["dead"] = sent(LARGE)
    dying = take(queue, found["dead"])
    reject(queue, dying.entry, dying.message, RunFailure("E", "e"))
    found["scheduled"] = sent(not_before=queue.now() + 60_000)
    found["in_flight"] = sent()
    take(queue, found["in_flight"])
    found["ready"] = sent()
    found["filtered"] = record_filtered(queue, Draft(b"x", **more)).message_id
    assert {name: status(queue, one).status.value for name, one in found.items()} == {name: name for name in found}
    return found


def erase(call: Caller, service: AdminService, asked: dict[str, Any], *, run: bool = True) -> dict[str, Any]:
    """Start an erasure and run it to its end: the job."""
    job = call.ok("POST", ERASURES, {"confirm": call.tenant, **asked})
    kept = service.jobs.get(call.tenant, "", job["job_id"])
    assert kept
    if run:
        service.run_job(kept, lambda: 3_600_000)
    found: dict[str, Any] = call.ok("GET", f"{ERASURES}/{job['job_id']}")
    return found


@pytest.fixture(autouse=True)
def unpaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("millrace.admin.run_erase.EraseRun._wait", lambda *_: None)


def test_all_of_a_key_is_forgotten_and_nothing_else(call: Caller, service: AdminService) -> None:
    queues = [service.queue(call.tenant, name) for name in ("Jobs", "Wide")]
    hers = [lives(queue, key=ALICE) for queue in queues]
    others = [lives(queue, key="bob") for queue in queues]
    job = erase(call, service, {"key": ALICE})
    assert (job["state"], job["done"], job["skipped"], job["failed"]) == ("done", 12, 0, 0)
    for queue, mine, theirs in zip(queues, hers, others, strict=True):
        assert all(status(queue, one).status is MessageStatus.PURGED for one in mine.values())
        assert {name: status(queue, one).status.value for name, one in theirs.items()} == {
            name: name for name in theirs
        }
        assert [one.message.id for one in list_dead_letters(queue).items] == [theirs["dead"]]
    assert erase(call, service, {"key": ALICE})["done"] == 0, "nothing of it is left"


@pytest.mark.parametrize("selection", [{"project": "billing"}, {"everything": True}, {"key": ALICE, "queue": "Jobs"}])
def test_a_project_a_tenant_and_a_key_in_one_queue(
    call: Caller, service: AdminService, selection: dict[str, Any]
) -> None:
    jobs, wide = (service.queue(call.tenant, name) for name in ("Jobs", "Wide"))
    meant = lives(jobs, key=ALICE, project="billing")
    other = lives(wide, key=ALICE, project="else")
    stranger = lives(service.queue("stranger", "Jobs"), key=ALICE, project="billing")
    job = erase(call, service, selection)
    assert job["done"] == (12 if "everything" in selection else 6)
    assert {status(jobs, one).status.value for one in meant.values()} == {"purged"}
    assert ({status(wide, one).status.value for one in other.values()} == {"purged"}) is ("everything" in selection)
    elsewhere = service.queue("stranger", "Jobs")
    assert {name: status(elsewhere, one).status.value for name, one in stranger.items()} == {
        name: name for name in stranger
    }


def test_of_a_tenant_that_is_forgotten_the_numbers_stay(call: Caller, service: AdminService) -> None:
    """Counters and samples: how many there were, and nothing that says whose."""
    queue, store = service.queue(call.tenant, "Jobs"), service.runtime.store
    lives(queue, key=ALICE, project="billing", labels=("vip",), origin="shop")
    store.put_sample(call.tenant, "Jobs", sample_of(queue.state(fresh=True), queue.now()))
    erase(call, service, {"everything": True})
    state, (sample,) = queue.state(fresh=True), store.read_samples(call.tenant, "Jobs", 0)
    assert state.done == sample.done == 1
    assert not [mark for mark in (ALICE, "billing", "vip", "shop") if mark in repr((state, sample))]
    assert any("Counters" in line for line in REMAINS)


@pytest.mark.parametrize("by", ["message_id", "idempotency_key"])
def test_one_message_goes_with_what_it_was_replayed_as(call: Caller, service: AdminService, by: str) -> None:
    queue = service.queue(call.tenant, "Jobs")
    first = enqueue(queue, Draft(LARGE, idempotency_key=ALICE)).message_id
    dying = only(claim(queue, owner="w"))
    reject(queue, dying.entry, dying.message, RunFailure("E", "e"))
    again = replay(queue, list_dead_letters(queue).items[0], "j").message_id
    other = enqueue(queue, Draft(LARGE, idempotency_key="other")).message_id
    assert erase(call, service, {by: first if by == "message_id" else ALICE})["done"] == 2
    assert [status(queue, one).status.value for one in (first, again, other)] == ["purged", "purged", "ready"]
    assert list_dead_letters(queue).items == ()


def test_a_holder_is_fenced(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    enqueue(queue, Draft(b"x", key=ALICE))
    mine = only(claim(queue, owner="w"))
    erase(call, service, {"key": ALICE})
    assert isinstance(ack(queue, [mine.entry])[0], StaleClaim)


def test_a_dry_run_counts_the_same_and_changes_nothing(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    hers = lives(queue, key=ALICE)
    job = call.ok("POST", ERASURES, {"key": ALICE, "dry_run": True})
    kept = service.jobs.get(call.tenant, "", job["job_id"])
    assert kept
    service.run_job(kept, lambda: 3_600_000)
    found = call.ok("GET", f"{ERASURES}/{job['job_id']}")
    assert (found["dry_run"], found["state"], found["done"]) == (True, "done", 6)
    assert {name: status(queue, one).status.value for name, one in hers.items()} == {name: name for name in hers}


def test_nothing_names_whom_it_forgot(call: Caller, service: AdminService) -> None:
    call.ok("POST", "/admin/queues/Jobs/dry-run", {"filter": {"key": ALICE}})
    call.ok("POST", "/admin/queues/Jobs/jobs", {"kind": "replay", "filter": {"key": ALICE}})
    assert ALICE in repr(list_audit_events(service.audit_log, call.tenant, only=EVERY_EVENT).items)
    running = erase(call, service, {"key": ALICE}, run=False)
    assert running["selects"] == {"key": ALICE}, "a job that is to go on knows it"
    done = erase(call, service, {"key": ALICE})
    assert ALICE not in json.dumps(done)
    assert done["selects"]["key"].startswith("sha256:")
    assert done["remains"] == list(REMAINS)
    events = list_audit_events(service.audit_log, call.tenant, only=EVERY_EVENT).items
    assert ALICE not in repr(events)
    actions = [(event.action, event.outcome) for event in events]
    assert actions.count(("start_erasure", "ok")) == 2
    assert ("job_ended", "done") in actions, "who did what, and when, stays"


@pytest.mark.parametrize("at", range(6))
def test_a_killed_runner_is_followed_by_another_and_everything_is_counted_once(
    call: Caller, service: AdminService, clock: Clock, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    queue = service.queue(call.tenant, "Jobs")
    lives(queue, key=ALICE)
    calls = 0

    def dies(real: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at + 1:
                raise Killed
            return real(*given)

        return counted

    job = call.ok("POST", ERASURES, {"key": ALICE, "confirm": call.tenant})
    kept = service.jobs.get(call.tenant, "", job["job_id"])
    assert kept
    blobs, store = service.runtime.blobs, service.runtime.store
    with monkeypatch.context() as patch:
        patch.setattr(blobs, "delete", dies(blobs.delete))
        patch.setattr(store, "erase_message", dies(store.erase_message))
        patch.setattr(store, "delete_dead_letter", dies(store.delete_dead_letter))
        with pytest.raises(Killed):
            service.run_job(kept, lambda: 3_600_000)
    clock.forward(120_000)
    service.run_open_jobs(lambda: 3_600_000)
    found = call.ok("GET", f"{ERASURES}/{job['job_id']}")
    assert (found["state"], found["done"], found["failed"]) == ("done", 6, 0)
    assert not vars(blobs)["objects"]
    assert list_dead_letters(queue).items == ()


def test_an_erasure_is_cancelled_and_resumed_from_where_it_was(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    lives(queue, key=ALICE)
    job = call.ok("POST", ERASURES, {"key": ALICE, "confirm": call.tenant})
    path = f"{ERASURES}/{job['job_id']}"
    assert call.ok("POST", f"{path}/cancel")["state"] == "cancelling"
    service.run_open_jobs(lambda: 3_600_000)
    assert (call.ok("GET", path)["state"], call.ok("GET", path)["done"]) == ("cancelled", 0)
    assert call.ok("POST", f"{path}/resume")["state"] == "running"
    service.run_open_jobs(lambda: 3_600_000)
    assert call.ok("GET", path)["done"] == 6
    assert [one["job_id"] for one in call.ok("GET", ERASURES)["erasures"]] == [job["job_id"]]


def test_messages_of_a_queue_that_is_defined_no_more_are_erased_too(call: Caller, service: AdminService) -> None:
    spec = replace(service.queue(call.tenant, "Jobs").spec, name="Gone")
    queue = service.runtime.queue(call.tenant, spec)
    message_id = enqueue(queue, Draft(LARGE, key=ALICE)).message_id
    assert erase(call, service, {"key": ALICE})["done"] == 1
    assert status(queue, message_id).status is MessageStatus.PURGED


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"confirm": "here"}, "body"),
        ({"key": "a", "project": "b"}, "body"),
        ({"key": "a"}, "confirm"),
        ({"key": "a", "confirm": "another"}, "confirm"),
        ({"everything": True}, "confirm"),
        ({"message_id": "no id", "dry_run": True}, "message_id"),
    ],
)
def test_what_is_not_clear_is_refused(call: Caller, asked: dict[str, Any], field: str) -> None:
    got = call("POST", ERASURES, asked)
    assert (got.status, got.json["field"]) == (400, field)


def test_an_unknown_queue_or_erasure_is_not_found(call: Caller) -> None:
    assert call("POST", ERASURES, {"key": "a", "queue": "Nope", "confirm": call.tenant}).status == 404
    for path in ("0" * 32, "none"):
        assert call("GET", f"{ERASURES}/{path}").status == 404
    assert call("POST", "/admin/queues/Jobs/jobs", {"kind": "erase", "confirm": "Jobs"}).status == 400
