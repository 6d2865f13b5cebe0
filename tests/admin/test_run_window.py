"""Replaying a window: each message that is done or dead once for each job, whoever dies on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from millrace.admin import run_window
from millrace.admin.run_job import LEASE_MS
from millrace.admin.service import AdminService
from millrace.admission.replays import replay_message
from millrace.engine.claim import claim
from millrace.engine.dead_letters import get_dead_letter, list_dead_letters
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack
from millrace.engine.forget import forget_message
from millrace.engine.inspect import list_entries
from millrace.engine.queue import Queue
from millrace.engine.status import statuses_of
from millrace.model.admin_jobs import AdminJob, AdminJobKind, AdminJobs, AdminJobState
from millrace.model.audit import AuditLog
from millrace.model.body import INLINE_LIMIT
from millrace.model.errors import StoreUnavailable
from millrace.model.message import DeadLetterFilter, Draft, Message
from millrace.model.replay_windows import ReplayOf, ReplayWindow, read_found
from millrace.stores.memory.admin import MemoryAdminJobs, MemoryAuditLog
from millrace.stores.memory.queue import MemoryStore
from tests.admin.calling import DEFINITIONS, bury
from tests.conftest import NOON, Bench

HOUR = 3_600_000


class Killed(BaseException):
    """The process is gone: nothing is written any more."""


def long() -> int:
    return HOUR


@pytest.fixture
def service(bench: Bench, jobs: AdminJobs, audit_log: AuditLog) -> AdminService:
    def sleep(seconds: float) -> None:
        bench.clock.forward(max(1, round(seconds * 1000)))

    return AdminService(bench.runtime, DEFINITIONS, jobs, audit_log, sleep=sleep)


@pytest.fixture
def queue(service: AdminService, bench: Bench) -> Queue:
    return service.queue(bench.tenant, "Jobs")


def done(bench: Bench, queue: Queue, count: int, **draft: Any) -> list[str]:
    """Messages that were worked off, a second apart."""
    ids = []
    for number in range(count):
        ids.append(enqueue(queue, Draft(**{"body": b'{"n":%d}' % number, **draft})).message_id)
        (held,) = claim(queue, owner="w", limit=1).claims
        ack(queue, [held.entry])
        bench.clock.forward(1_000)
    return ids


def start(service: AdminService, bench: Bench, of: ReplayOf = ReplayOf.DONE, **more: Any) -> AdminJob:
    window = ReplayWindow(of, more.pop("to", "Jobs"), more.pop("since", NOON), more.pop("before", NOON + HOUR))
    job = AdminJob("j1", bench.tenant, "Jobs", AdminJobKind.REPLAY, bench.clock.now, "t1", "olga", NOON // 1000 + 1)
    return service.jobs.create(replace(job, selects=window.written(), **more))


def run(service: AdminService, job: AdminJob, left: Callable[[], int] = long) -> AdminJob:
    return service.run_job(job, left).job


def waiting(queue: Queue) -> list[Message]:
    entries = list_entries(queue, limit=500).items
    messages = queue.store.get_messages([entry.id for entry in entries])
    # An entry without its own message is what a killed sender leaves: it never runs.
    return [one for entry in entries if (one := messages.get(entry.id)) and one.nonce == entry.nonce]


def origins(queue: Queue) -> list[str]:
    return sorted(message.origin for message in waiting(queue))


def test_what_is_done_in_the_window_is_replayed_and_nothing_else(
    bench: Bench, service: AdminService, queue: Queue
) -> None:
    ids = done(bench, queue, 6, key="k", project="p", correlation_id="c-1", headers={"x-a": "1"})
    done(bench, service.queue(bench.tenant, "Keyed"), 1, key="k")
    bury(queue, 1)
    open_ = enqueue(queue, Draft(b"{}", project="open")).message_id
    ran = run(service, start(service, bench, since=NOON + 1_000, before=NOON + 5_000))
    assert (ran.state, ran.done, ran.skipped, ran.failed) == (AdminJobState.DONE, 4, 0, 0)
    again = [one for one in waiting(queue) if one.id != open_]
    assert sorted(one.origin for one in again) == sorted(ids[1:5])
    assert {(one.key, one.project, one.correlation_id, one.headers["x-a"]) for one in again} == {("k", "p", "c-1", "1")}
    assert {queue.runtime.bodies.read(one) for one in again} == {b'{"n":%d}' % number for number in range(1, 5)}
    found = read_found(ran.found)
    assert found.statuses == {"done": 4}
    assert {one.id for one in found.samples} == set(ids[1:5])
    assert found.units >= 4 * run_window.LOOK_UNITS


def test_a_job_does_not_meet_what_it_has_made_itself(bench: Bench, service: AdminService, queue: Queue) -> None:
    """Though its runner's clock is behind that of whoever started it: it waits until it is not."""
    done(bench, queue, 3)
    job = start(service, bench)
    bench.clock.now -= 500
    left = iter([10_000] * 8)
    began = bench.clock.now
    run(service, job, lambda: next(left, 0))
    assert bench.clock.now >= job.created_at
    assert bench.clock.now > began
    while held := claim(queue, owner="w", limit=10).claims:
        for one in held:
            ack(queue, [one.entry])
    ran = run(service, job)
    assert (ran.state, ran.done) == (AdminJobState.DONE, 3)


def test_what_is_received_after_the_job_was_started_is_not_its(
    bench: Bench, service: AdminService, queue: Queue
) -> None:
    ids = done(bench, queue, 2)
    job = start(service, bench)
    done(bench, queue, 2)
    ran = run(service, job)
    assert (ran.done, origins(queue)) == (2, sorted(ids))


def test_a_dry_run_counts_and_changes_nothing(bench: Bench, service: AdminService, queue: Queue) -> None:
    ids = done(bench, queue, 12)
    (dead,) = bury(queue, 1)
    enqueue(queue, Draft(b"{}"))
    bench.clock.forward(1)
    ran = run(service, start(service, bench, ReplayOf.ALL, dry_run=True))
    found = read_found(ran.found)
    assert (ran.state, ran.done) == (AdminJobState.DONE, 13)
    assert found.statuses == {"done": 12, "dead": 1, "ready": 1}
    assert len(found.samples) == 10
    assert {one.id for one in found.samples} <= {*ids, dead.message.id}
    assert len(waiting(queue)) == 1
    assert not get_dead_letter(queue, dead.sk).replayed_at


def test_a_dry_run_reads_no_bodies(
    bench: Bench, service: AdminService, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(bench, queue, 3)
    monkeypatch.setattr(queue.store, "get_messages", lambda _ids: pytest.fail("a whole message was read"))
    assert run(service, start(service, bench, dry_run=True)).done == 3


def test_dead_letters_are_replayed_in_their_order_and_marked(bench: Bench, service: AdminService, queue: Queue) -> None:
    letters = bury(queue, 4, step=lambda: bench.clock.forward(1_000), key="k")
    ran = run(service, start(service, bench, ReplayOf.DEAD, since=NOON + 1_000, before=NOON + 3_000))
    assert (ran.done, read_found(ran.found).statuses) == (2, {"dead": 2})
    assert [one.origin for one in waiting(queue)] == [one.message.id for one in letters[1:3]]
    marked = list_dead_letters(queue, newest_first=False).items
    assert [one.replay_job for one in marked] == ["", "j1", "j1", ""]
    again = service.jobs.create(
        replace(ran, id="j2", state=AdminJobState.RUNNING, position="", done=0, skipped=0, found="")
    )
    assert run(service, again).skipped == 2


def test_all_takes_both(bench: Bench, service: AdminService, queue: Queue) -> None:
    ids = done(bench, queue, 2)
    letters = bury(queue, 2)
    bench.clock.forward(1_000)
    ran = run(service, start(service, bench, ReplayOf.ALL))
    assert (ran.state, ran.done) == (AdminJobState.DONE, 4)
    assert origins(queue) == sorted([*ids, *(one.message.id for one in letters)])


def test_a_filter_narrows_what_is_done_too(bench: Bench, service: AdminService, queue: Queue) -> None:
    done(bench, queue, 2, project="billing")
    wanted = done(bench, queue, 2, project="search", key="a") + done(bench, queue, 1, project="search", key="b")
    ran = run(service, start(service, bench, only=DeadLetterFilter(project="search", key="a")))
    assert (ran.done, origins(queue)) == (2, sorted(wanted[:2]))


def test_another_queue_takes_them_by_its_own_rules(bench: Bench, service: AdminService, queue: Queue) -> None:
    done(bench, queue, 2, key="k")
    letters = bury(queue, 1, key="k", priority=200)
    bench.clock.forward(1_000)
    ran = run(service, start(service, bench, ReplayOf.ALL, to="Wide"))
    wide = service.queue(bench.tenant, "Wide")
    assert ran.done == 3
    assert waiting(queue) == []
    assert {one.key for one in waiting(wide)} == {""}
    assert {entry.priority for entry in list_entries(wide).items} == {wide.spec.priority}
    assert get_dead_letter(queue, letters[0].sk).replayed_as in {one.id for one in waiting(wide)}


def test_what_was_erased_is_counted_and_stays_erased(bench: Bench, service: AdminService, queue: Queue) -> None:
    ids = done(bench, queue, 3)
    forget_message(queue, ids[1])
    ran = run(service, start(service, bench))
    assert (ran.done, read_found(ran.found).statuses) == (2, {"done": 2, "purged": 1})
    assert origins(queue) == sorted([ids[0], ids[2]])


def test_one_that_is_erased_while_the_job_runs_is_skipped(
    bench: Bench, service: AdminService, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = done(bench, queue, 2)
    look = statuses_of

    def and_then_erased(*given: Any) -> Any:
        found = look(*given)
        if ids[0] in found:  # the scan may meet the two in different pages
            forget_message(queue, ids[0])
        return found

    monkeypatch.setattr(run_window, "statuses_of", and_then_erased)
    ran = run(service, start(service, bench))
    assert (ran.done, ran.skipped, origins(queue)) == (1, 1, ids[1:])


def test_a_message_that_finishes_while_the_window_is_scanned_is_replayed_once_or_not(
    bench: Bench, service: AdminService, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before each look at the statuses in turn one more is acked; after the job a second one finds the rest."""
    monkeypatch.setattr(run_window, "TOGETHER", 1)
    ids = [enqueue(queue, Draft(b"{}")).message_id for _ in range(6)]
    held = list(claim(queue, owner="w", limit=10).claims)
    bench.clock.forward(1)
    look = statuses_of

    def finish_one(*given: Any) -> Any:
        if held:
            ack(queue, [held.pop().entry])
        return look(*given)

    monkeypatch.setattr(run_window, "statuses_of", finish_one)
    ran = run(service, start(service, bench))
    met = read_found(ran.found).statuses
    assert (met.get("done", 0) + met.get("in_flight", 0), ran.done) == (6, met.get("done", 0))
    assert Counter(origins(queue)).total() == len(set(origins(queue))) == ran.done
    assert set(origins(queue)) <= set(ids)


@pytest.mark.parametrize("dies_after", range(1, 17))
def test_a_job_killed_anywhere_replays_each_message_once(
    bench: Bench, service: AdminService, queue: Queue, monkeypatch: pytest.MonkeyPatch, dies_after: int
) -> None:
    """Killed before each of its writes in turn, in a queue whose window is over long before it is taken over."""
    if isinstance(bench.store, MemoryStore):  # the other table is shared: it has thousands of such pages
        monkeypatch.setattr(run_window, "SCAN_PAGE", 3)
    monkeypatch.setattr("millrace.admin.run_job.SAVE_EVERY", 2)
    brief = service.queue(bench.tenant, "Brief")
    ids = done(bench, brief, 3)
    ids += [one.message.id for one in bury(brief, 2, step=lambda: bench.clock.forward(10))]
    job = start_in(service, bench, "Brief")
    writes = Counter[str]()

    def mortal(owner: object, name: str) -> None:
        whole = getattr(owner, name)

        def write(*given: object, **named: object) -> object:
            writes["all"] += 1
            if writes["all"] == dies_after:
                raise Killed
            return whole(*given, **named)

        monkeypatch.setattr(owner, name, write)

    for name in ("put_entries", "put_messages", "mark_replayed"):
        mortal(service.runtime.store, name)
    mortal(service.jobs, "save")
    with pytest.raises(Killed):
        run(service, job)
    assert run(service, job).state is AdminJobState.RUNNING, "the lease still holds"
    bench.clock.forward(LEASE_MS + 400_000)
    ran = run(service, job)
    assert (ran.state, ran.done, ran.skipped, ran.failed) == (AdminJobState.DONE, 5, 0, 0)
    assert origins(brief) == sorted(ids)


def start_in(service: AdminService, bench: Bench, name: str) -> AdminJob:
    window = ReplayWindow(ReplayOf.ALL, name, NOON, NOON + HOUR)
    job = AdminJob("j1", bench.tenant, name, AdminJobKind.REPLAY, bench.clock.now, "t1", "olga", NOON // 1000 + 1)
    return service.jobs.create(replace(job, selects=window.written()))


@pytest.mark.parametrize("lost", range(1, 6))
def test_lost_answers_double_nothing(
    bench: Bench, service: AdminService, queue: Queue, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    """Each call happens and its answer does not come: the job goes on from what it had saved."""
    ids = done(bench, queue, 3)
    store, calls = queue.store, Counter[str]()

    def silent(name: str) -> None:
        whole = getattr(store, name)

        def call(*given: object, **named: object) -> object:
            calls["all"] += 1
            made = whole(*given, **named)
            if calls["all"] == lost:
                raise StoreUnavailable("no answer")
            return made

        monkeypatch.setattr(store, name, call)

    for name in ("scan_messages", "get_entries", "put_messages"):
        silent(name)
    job = start(service, bench)
    assert run(service, job).state is AdminJobState.RUNNING
    ran = run(service, job)
    assert (ran.state, ran.done, ran.failed) == (AdminJobState.DONE, 3, 0)
    assert origins(queue) == sorted(ids)


def test_two_runners_at_once_replay_each_message_once(
    bench: Bench, service: AdminService, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is stopped past its lease in the middle of a message, and wakes when the second is through."""
    ids = done(bench, queue, 4)
    job = start(service, bench)
    other = AdminService(bench.another_process(), DEFINITIONS, service.jobs, service.audit_log, sleep=service.sleep)
    again, slept = replay_message, list[int]()

    def stopped(*given: Any, **named: Any) -> Any:
        if not slept:
            slept.append(1)
            bench.clock.forward(LEASE_MS + 1)
            assert run(other, job).state is AdminJobState.DONE
        return again(*given, **named)

    monkeypatch.setattr(run_window, "replay_message", stopped)
    run(service, job)
    kept = service.jobs.get(bench.tenant, "Jobs", "j1")
    assert kept is not None
    assert (kept.state, kept.done) == (AdminJobState.DONE, 4), "who lost its lease saves nothing"
    assert origins(queue) == sorted(ids)


def test_a_job_stops_where_its_time_ends_and_goes_on_there(
    bench: Bench, service: AdminService, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_window, "SCAN_PAGE", 500)
    ids = done(bench, queue, 5)
    job, slices = start(service, bench), 0
    while job.open:
        left = iter([10_000, 10_000, 10_000])
        before = job.done
        job = run(service, job, lambda left=left: next(left, 0))  # type: ignore[misc]
        assert job.done - before <= 3
        slices += 1
    assert slices > 1
    assert (job.done, origins(queue)) == (5, sorted(ids))


def test_a_full_queue_is_waited_for_and_a_cancel_is_heard(bench: Bench, service: AdminService, queue: Queue) -> None:
    done(bench, queue, 5)
    job = start(service, bench, to="Small")
    left = iter([10_000] * 60)
    ran = run(service, job, lambda: next(left, 0))
    assert (ran.done, ran.note) == (3, "The queue is full: waiting for room.")
    service.jobs.ask_cancel(bench.tenant, "Jobs", "j1", bench.clock.now)
    assert (run(service, job).state, len(waiting(service.queue(bench.tenant, "Small")))) == (AdminJobState.CANCELLED, 3)


def test_replays_hold_their_rate(bench: Bench, service: AdminService, queue: Queue) -> None:
    done(bench, queue, 5)
    began = bench.clock.now
    run(service, start(service, bench, rate=1.0))
    assert 4_000 <= bench.clock.now - began < 30_000


def test_the_scan_holds_its_pace(memory_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a table of its own: what others keep in the shared one would be paid for too."""
    monkeypatch.setattr(run_window, "SCAN_PAGE", 2)
    monkeypatch.setattr(run_window, "UNITS_PER_SECOND", 4)
    clock = memory_bench.clock
    service = AdminService(
        memory_bench.runtime,
        DEFINITIONS,
        MemoryAdminJobs(),
        MemoryAuditLog(),
        sleep=lambda seconds: clock.forward(max(1, round(seconds * 1000))),
    )
    done(memory_bench, service.queue(memory_bench.tenant, "Jobs"), 6)
    began = clock.now
    ran = run(service, start(service, memory_bench, dry_run=True))
    assert read_found(ran.found).units == 6 + 6 * run_window.LOOK_UNITS
    assert clock.now - began == 2 * 2_000, "after each page but the last: two items, and two looked up"


def test_a_body_that_is_gone_is_told_and_stops_no_other(bench: Bench, service: AdminService, queue: Queue) -> None:
    done(bench, queue, 1)
    (gone,) = done(bench, queue, 1, body=Random(1).randbytes(2 * INLINE_LIMIT), content_type="image/png")
    (kept,) = done(bench, queue, 1, body=Random(2).randbytes(2 * INLINE_LIMIT), content_type="image/png")
    del bench.blobs.objects[queue.store.get_messages([gone])[gone].body.blob]
    ran = run(service, start(service, bench))
    assert (ran.state, ran.done, ran.failed) == (AdminJobState.DONE, 2, 1)
    assert ran.failures.startswith(gone)
    (large,) = [one for one in waiting(queue) if one.origin == kept]
    assert queue.runtime.bodies.read(large) == Random(2).randbytes(2 * INLINE_LIMIT)
