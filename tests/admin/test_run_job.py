"""Running a job in slices: one runner, safe to kill anywhere, a dead letter once for each job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import randbytes

import pytest

from millrace.admin import run_job
from millrace.admin.run_job import run_job_slice
from millrace.engine.claim import claim
from millrace.engine.dead_letters import list_dead_letters, mark_replays_in_doubt, replay
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, ack, reject
from millrace.engine.inspect import list_entries
from millrace.engine.queue import Queue
from millrace.model.admin_jobs import AdminJob, AdminJobKind, AdminJobs, AdminJobState
from millrace.model.body import INLINE_LIMIT
from millrace.model.message import DeadLetterFilter, Draft
from tests.admin.calling import bury
from tests.conftest import NOON, Bench

HOUR_MS = 3_600_000


class Killed(BaseException):
    """The process is gone: nothing is written any more."""


def long() -> int:
    return HOUR_MS


def started(
    bench: Bench, jobs: AdminJobs, queue: Queue, kind: AdminJobKind = AdminJobKind.REPLAY, **more: object
) -> AdminJob:
    job = AdminJob("j1", bench.tenant, queue.spec.name, kind, bench.clock.now, "t1", "olga", NOON // 1000 + 1, **more)  # type: ignore[arg-type]
    return jobs.create(job)


def origins(queue: Queue) -> list[str]:
    """What lies in the queue, in its order: where each message came from."""
    entries = list_entries(queue, limit=500).items
    messages = queue.store.get_messages([entry.id for entry in entries])
    return [messages[entry.id].origin for entry in entries]


def dead(bench: Bench, queue: Queue, count: int, **draft: object) -> list[str]:
    dead_letters = bury(queue, count, step=lambda: bench.clock.forward(10), **draft)  # type: ignore[arg-type]
    return [dead_letter.message.id for dead_letter in dead_letters]


def test_a_replay_job_replays_oldest_first_and_counts(bench: Bench, jobs: AdminJobs) -> None:
    queue = bench.queue()
    ids = dead(bench, queue, 7)
    ran = run_job_slice(jobs, queue, started(bench, jobs, queue), long)
    assert (ran.job.state, ran.job.done, ran.more) == (AdminJobState.DONE, 7, False)
    assert origins(queue) == ids
    assert jobs.get(bench.tenant, "Jobs", "j1") == ran.job


def test_what_dies_again_meanwhile_is_not_replayed_again(bench: Bench, jobs: AdminJobs) -> None:
    queue = bench.queue()
    dead(bench, queue, 2)
    job = started(bench, jobs, queue)
    left = iter([10_000, 0])
    assert run_job_slice(jobs, queue, job, lambda: next(left)).job.done == 1
    bench.clock.forward(1)
    (held,) = claim(queue, owner="w", limit=10).claims
    reject(queue, held.entry, held.message, RunFailure("ValueError", "again"))
    assert len(list_dead_letters(queue).items) == 3
    ran = run_job_slice(jobs, queue, job, long)
    assert (ran.job.state, ran.job.done) == (AdminJobState.DONE, 2)


def test_a_filter_narrows_the_job(bench: Bench, jobs: AdminJobs) -> None:
    queue = bench.queue()
    dead(bench, queue, 3, project="billing")
    wanted = dead(bench, queue, 2, project="search")[3:]
    ran = run_job_slice(jobs, queue, started(bench, jobs, queue, only=DeadLetterFilter(project="search")), long)
    assert ran.job.done == 2
    assert origins(queue) == wanted


def test_what_was_replayed_before_is_left_out_unless_asked_for(bench: Bench, jobs: AdminJobs) -> None:
    queue = bench.queue()
    dead(bench, queue, 3)
    replay(queue, list_dead_letters(queue).items[0], "one:x")
    ran = run_job_slice(jobs, queue, started(bench, jobs, queue), long)
    assert (ran.job.done, ran.job.skipped) == (2, 1)
    again = jobs.create(
        replace(ran.job, id="j2", state=AdminJobState.RUNNING, again=True, position="", done=0, skipped=0)
    )
    assert run_job_slice(jobs, queue, again, long).job.done == 3


@pytest.mark.parametrize("dies_after", range(1, 14))
def test_a_job_killed_anywhere_replays_each_dead_letter_once(
    bench: Bench, jobs: AdminJobs, monkeypatch: pytest.MonkeyPatch, dies_after: int
) -> None:
    """Killed before each of its writes in turn, at small pages, then taken over."""
    monkeypatch.setattr(run_job, "PAGE", 2)
    monkeypatch.setattr(run_job, "SAVE_EVERY", 2)
    queue = bench.queue()
    ids = dead(bench, queue, 5)
    job = started(bench, jobs, queue)
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
        mortal(queue.store, name)
    mortal(jobs, "save")
    with pytest.raises(Killed):
        run_job_slice(jobs, queue, job, long)
    assert run_job_slice(jobs, bench.queue(), job, long).job.state is AdminJobState.RUNNING, "the lease still holds"
    bench.clock.forward(run_job.LEASE_MS + 400_000)
    ran = run_job_slice(jobs, bench.queue(), job, long)
    assert (ran.job.state, ran.job.done) == (AdminJobState.DONE, 5)
    claimed = claim(queue, owner="w", limit=20).claims
    assert sorted(held.message.origin for held in claimed) == sorted(ids)


def test_a_dead_letter_in_doubt_is_found_though_its_window_is_over_and_its_message_done(
    bench: Bench, jobs: AdminJobs
) -> None:
    """Died between the replay and its mark; the new message ended and its idempotency window with it."""
    from millrace.model.queue_spec import Idempotency

    queue = bench.queue(idempotency=Idempotency(window_seconds=1))
    dead(bench, queue, 1)
    (dead_letter,) = list_dead_letters(queue).items
    replay(queue, dead_letter, "j1")
    queue.store.mark_replayed(dead_letter)  # as if the mark had never been written
    (held,) = claim(queue, owner="w", limit=1).claims
    ack(queue, [held.entry])
    bench.clock.forward(60_000)
    job = started(bench, jobs, queue)
    taken = jobs.take(replace(job, lease_token="dead", lease_until=bench.clock.now + 1), bench.clock.now)
    assert taken is not None
    bench.clock.forward(60_000)
    ran = run_job_slice(jobs, queue, job, long)
    assert (ran.job.done, origins(queue)) == (1, [])
    (marked,) = list_dead_letters(queue).items
    assert (marked.replayed_as, marked.replay_job) == (held.message.id, "j1")
    assert mark_replays_in_doubt(queue, [marked], "j1") == [marked]


def test_a_slice_ends_in_time_and_the_next_goes_on(
    bench: Bench, jobs: AdminJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bench.queue()
    ids = dead(bench, queue, 6)
    job = started(bench, jobs, queue)
    left = iter([10_000, 10_000, 10_000, 0])
    first = run_job_slice(jobs, queue, job, lambda: next(left))
    assert (first.job.state, first.job.done, first.more) == (AdminJobState.RUNNING, 3, True)
    second = run_job_slice(jobs, queue, job, long)
    assert (second.job.state, second.job.done) == (AdminJobState.DONE, 6)
    assert origins(queue) == ids


def test_one_runner_at_a_time(bench: Bench, jobs: AdminJobs) -> None:
    queue = bench.queue()
    dead(bench, queue, 2)
    job = started(bench, jobs, queue)
    now = bench.clock.now
    first = jobs.take(replace(job, lease_token="a", lease_until=now + 1000), now)
    assert first is not None
    assert jobs.take(replace(job, lease_token="b", lease_until=now + 1000), now + 999) is None
    assert run_job_slice(jobs, queue, job, long).job.done == 0
    second = jobs.take(replace(job, lease_token="b", lease_until=now + 2000), now + 1000)
    assert second is not None
    assert second.lease_version == first.lease_version + 1
    assert jobs.save(replace(first, done=99)) is None, "a stale runner changes nothing"
    saved = jobs.save(replace(second, done=1))
    assert saved is not None
    assert saved.done == 1


def test_a_runner_that_lost_its_lease_stops(bench: Bench, jobs: AdminJobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_job, "SAVE_EVERY", 1)
    queue = bench.queue()
    dead(bench, queue, 5)
    job = started(bench, jobs, queue)

    def lose() -> int:
        now = bench.clock.now
        bench.clock.forward(run_job.LEASE_MS)
        assert jobs.take(replace(job, lease_token=f"thief{now}", lease_until=bench.clock.now + 1), bench.clock.now)
        return HOUR_MS

    ran = run_job_slice(jobs, queue, job, lose)
    assert ran.more is False
    kept = jobs.get(bench.tenant, "Jobs", "j1")
    assert kept is not None
    assert (kept.done, kept.lease_token[:5]) == (0, "thief")


def test_a_cancelled_job_stops_keeps_its_counts_and_can_be_resumed(
    bench: Bench, jobs: AdminJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_job, "SAVE_EVERY", 1)
    queue = bench.queue()
    ids = dead(bench, queue, 6)
    job = started(bench, jobs, queue)
    steps = iter(range(100))

    def cancel_on_third() -> int:
        if next(steps) == 2:
            jobs.ask_cancel(bench.tenant, "Jobs", "j1", bench.clock.now)
        return HOUR_MS

    ran = run_job_slice(jobs, queue, job, cancel_on_third)
    assert (ran.job.state, ran.job.done) == (AdminJobState.CANCELLED, 3)
    assert run_job_slice(jobs, queue, job, long).job.done == 3, "an ended job is not run"
    reopened = jobs.reopen(bench.tenant, "Jobs", "j1", bench.clock.now)
    assert reopened is not None
    assert reopened.open
    ran = run_job_slice(jobs, queue, reopened, long)
    assert (ran.job.state, ran.job.done) == (AdminJobState.DONE, 6)
    assert origins(queue) == ids


def test_a_full_queue_is_waited_for_not_overrun(bench: Bench, jobs: AdminJobs) -> None:
    from millrace.model.queue_spec import Retention

    queue = bench.queue(retention=Retention(max_depth=2))
    dead(bench, queue, 5)
    job = started(bench, jobs, queue)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        bench.clock.forward(int(seconds * 1000))
        for held in claim(queue, owner="w", limit=1).claims:
            ack(queue, [held.entry])

    ran = run_job_slice(jobs, queue, job, long, sleep=sleep)
    assert (ran.job.state, ran.job.done, ran.job.note) == (AdminJobState.DONE, 5, "")
    assert len(slept) >= 3


def test_a_job_on_a_full_queue_says_so_when_its_time_is_up(bench: Bench, jobs: AdminJobs) -> None:
    from millrace.model.queue_spec import Retention

    queue = bench.queue(retention=Retention(max_depth=1))
    dead(bench, queue, 2)
    end = bench.clock.now + 20_000
    ran = run_job_slice(
        jobs, queue, started(bench, jobs, queue), lambda: end - bench.clock.now,
        sleep=lambda seconds: bench.clock.forward(int(seconds * 1000)),
    )  # fmt: skip
    assert (ran.job.state, ran.job.done, ran.more) == (AdminJobState.RUNNING, 1, False)
    assert "full" in ran.job.note


def test_the_rate_holds(bench: Bench, jobs: AdminJobs) -> None:
    queue = bench.queue()
    dead(bench, queue, 5)
    before = bench.clock.now
    sleep: Callable[[float], None] = lambda seconds: bench.clock.forward(max(1, round(seconds * 1000)))  # noqa: E731
    run_job_slice(jobs, queue, started(bench, jobs, queue, rate=2.0), long, sleep=sleep)
    times = sorted(entry.enqueued_at - before for entry in list_entries(queue).items)
    assert times == [0, 500, 1000, 1500, 2000]


def test_a_dead_letter_that_cannot_be_replayed_is_counted_and_named(bench: Bench, jobs: AdminJobs) -> None:
    queue = bench.queue()
    ids = dead(bench, queue, 2, body=b"x" * 50)
    narrow = bench.queue(max_body_bytes=10)
    ran = run_job_slice(jobs, narrow, started(bench, jobs, queue), long)
    assert (ran.job.state, ran.job.failed, ran.job.done) == (AdminJobState.DONE, 2, 0)
    assert ids[0] in ran.job.failures.splitlines()[0]


def test_a_lost_body_is_counted_and_the_job_goes_on(bench: Bench, jobs: AdminJobs) -> None:
    queue = bench.queue()
    (lost,) = dead(bench, queue, 1, body=randbytes(100_000))
    dead(bench, queue, 2)
    queue.runtime.blobs.objects.clear()  # type: ignore[attr-defined]
    ran = run_job_slice(jobs, queue, started(bench, jobs, queue), long)
    assert (ran.job.state, ran.job.failed, ran.job.done) == (AdminJobState.DONE, 1, 2)
    assert lost in ran.job.failures


@pytest.mark.parametrize("ordering", ["fifo", "per_key"])
def test_replay_keeps_the_order_of_each_key(bench: Bench, jobs: AdminJobs, ordering: str) -> None:
    from millrace.model.queue_spec import Ordering

    queue = bench.queue(ordering=Ordering(ordering))
    for number in range(6):
        enqueue(queue, Draft(str(number).encode(), key=f"k{number % 2}"))
        bench.clock.forward(1)
    for _ in range(6):
        (held,) = claim(queue, owner="w", limit=1).claims
        reject(queue, held.entry, held.message, RunFailure("E", "e"))
        bench.clock.forward(1)
    run_job_slice(jobs, queue, started(bench, jobs, queue), long)
    seen: dict[str, list[int]] = {"k0": [], "k1": []}
    for _ in range(6):
        (held,) = claim(queue, owner="w", limit=1).claims
        seen[held.entry.key].append(int(held.message.body.data))
        ack(queue, [held.entry])
    assert seen == {"k0": [0, 2, 4], "k1": [1, 3, 5]}


def test_bulk_purge_forgets_what_the_filter_finds(bench: Bench, jobs: AdminJobs) -> None:
    queue = bench.queue()
    dead(bench, queue, 3, error="old")
    dead(bench, queue, 2, error="new")
    job = started(bench, jobs, queue, AdminJobKind.PURGE_DEAD_LETTERS, only=DeadLetterFilter(error_text="old"))
    assert run_job_slice(jobs, queue, job, long).job.done == 3
    assert [dead_letter.error for dead_letter in list_dead_letters(queue).items] == ["new", "new"]
    assert queue.state(fresh=True).dead_letters(queue.now(), 86_400) == 2


def test_purging_a_queue_leaves_what_is_held(bench: Bench, jobs: AdminJobs) -> None:
    queue = bench.queue()
    for _ in range(30):
        enqueue(queue, Draft(b"{}"))
    (held,) = claim(queue, owner="w", limit=1).claims
    ran = run_job_slice(jobs, queue, started(bench, jobs, queue, AdminJobKind.PURGE_QUEUE), long)
    assert (ran.job.state, ran.job.done, ran.job.skipped) == (AdminJobState.DONE, 29, 1)
    assert [entry.id for entry in list_entries(queue).items] == [held.message.id]


def test_jobs_are_listed_newest_first_by_queue_and_while_open(jobs: AdminJobs, bench: Bench) -> None:
    for number, name in enumerate(("A", "B", "A")):
        jobs.create(AdminJob(f"j{number}", bench.tenant, name, AdminJobKind.REPLAY, NOON + number, "t", "olga", 1))
    assert [job.id for job in jobs.list_jobs(bench.tenant)] == ["j2", "j1", "j0"]
    assert [job.id for job in jobs.list_jobs(bench.tenant, "A")] == ["j2", "j0"]
    assert {job.id for job in jobs.list_open() if job.tenant == bench.tenant} == {"j0", "j1", "j2"}
    first = jobs.get(bench.tenant, "A", "j0")
    assert first is not None
    assert jobs.create(replace(first, done=5)) == first
    assert jobs.ask_cancel(bench.tenant, "A", "nothing", NOON) is None
    assert jobs.reopen(bench.tenant, "A", "j0", NOON) == first


def test_a_purge_that_was_killed_before_a_body_was_gone_is_finished_by_the_next_runner(
    bench: Bench, jobs: AdminJobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bench.queue()
    for _ in range(3):
        enqueue(queue, Draft(randbytes(INLINE_LIMIT + 1)))
    job = started(bench, jobs, queue, AdminJobKind.PURGE_QUEUE)

    def killed(_key: str) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(bench.blobs, "delete", killed)
        with pytest.raises(Killed):
            run_job_slice(jobs, queue, job, long)
    assert len(bench.blobs.objects) == 3
    bench.clock.forward(run_job.LEASE_MS)
    ran = run_job_slice(jobs, queue, job, long)
    assert (ran.job.state, ran.job.in_hand) == (AdminJobState.DONE, "")
    assert not bench.blobs.objects
    assert list_entries(queue).items == ()
