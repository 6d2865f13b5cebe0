"""Rows into the queue: an exact outcome for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from millrace.engine.claim import body_of, claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, nack
from millrace.engine.status import MessageStatus, status
from millrace.model.body import INLINE_LIMIT
from millrace.model.message import Draft
from millrace.model.queue_spec import Idempotency, Ordering, QueueSpec, Retention, RetryPolicy
from millrace.spark import writer
from millrace.spark.rows import Row, RowOutcome
from millrace.spark.writer import WINDOW
from tests.faults.store import down, unsent
from tests.spark.task import Task, outcomes, tally, work_off

CONFLICT, DUPLICATE = RowOutcome.CONFLICT, RowOutcome.DUPLICATE
FAILED, FILTERED = RowOutcome.FAILED, RowOutcome.FILTERED
INSERTED, REJECTED = RowOutcome.INSERTED, RowOutcome.REJECTED
#: As it is stored: in the message, packed in the message, in a blob, packed in a blob.
NOISE = b"".join(sha256(b"%d" % n).digest() for n in range(2_000))
BODIES = {"small": b'{"a": 1}', "packed": b'{"a": 1}' * 200, "blob": NOISE, "packed blob": NOISE + b" " * 9_000}


def test_every_row_has_its_outcome(task: Task) -> None:
    enqueue(task.queue, task.row(2).draft)
    enqueue(task.queue, task.row(3, b"another", run="earlier").draft)
    rows = [*task.rows(range(1, 4)), task.row(4, reason="malformed"), task.row(5, priority=10_000)]
    lines = task.write(rows, run="run-2")
    assert outcomes(lines) == {1: INSERTED, 2: DUPLICATE, 3: CONFLICT, 4: REJECTED, 5: REJECTED}
    assert {line.position.offset: line.reason.partition(":")[0] for line in lines} == {
        1: "",
        2: "A message of its key was there already.",
        3: "Its key is taken by a message with another body.",
        4: "malformed",
        5: "invalid_field",
    }
    assert task.lies_exactly(*rows[:3])


def test_a_message_is_stored_as_its_row_says_and_carries_its_run(task: Task) -> None:
    row = task.row(1, key="k", project="billing", labels=("a",), priority=7, correlation_id="trace-1")
    task.write([row])
    found = status(task.queue, row.id)
    assert (found.message.run, found.message.source, found.message.correlation_id) == ("run-1", "bulk", "trace-1")
    assert found.entry is not None
    assert (found.entry.key, found.entry.project, found.entry.labels, found.entry.priority) == (
        "k",
        "billing",
        ("a",),
        7,
    )


def test_copies_share_the_fate_of_their_row_and_are_held_to_the_stored_body(task: Task) -> None:
    enqueue(task.queue, task.row(2, b"stored", run="earlier").draft)
    fates = [
        (task.row(1, b"mine", copies=[b"mine", b"other"]), [INSERTED, DUPLICATE, CONFLICT]),
        (task.row(2, b"mine", copies=[b"mine", b"stored"]), [CONFLICT, CONFLICT, DUPLICATE]),
        (task.row(3, b"mine", copies=[b"mine", b"other"], reason="malformed"), [REJECTED] * 3),
        (task.row(4, b"mine", copies=[b"mine"], priority=-1), [REJECTED] * 2),
    ]
    for row, fate in fates:
        assert [line.outcome for line in task.write([row])] == fate
    task.faulty.plan("take_credits", always=down)
    lines = task.write([task.row(5, b"mine", copies=[b"mine", b"other"])], again=True)
    assert [line.outcome for line in lines] == [FAILED] * 3


@pytest.mark.parametrize("stored", BODIES)
def test_a_body_is_compared_byte_for_byte_however_it_is_stored(task: Task, stored: str) -> None:
    body = BODIES[stored]
    other = body[:-1] + b"?"
    enqueue(task.queue, task.row(1, body, run="earlier").draft)
    enqueue(task.queue, task.row(2, body, run="earlier").draft)
    assert (len(task.bench.blobs.objects) == 2) == (len(body) > INLINE_LIMIT)
    read = task.bench.blobs.get
    task.bench.blobs.get = down_blob  # type: ignore[method-assign,assignment]
    lines = task.write([task.row(1, body, copies=[other, body]), task.row(2, other), task.row(3, body, copies=[body])])
    assert [line.outcome for line in lines if line.row.draft.idempotency_key == "key-1"] == [
        DUPLICATE,
        CONFLICT,
        DUPLICATE,
    ]
    assert outcomes(lines)[2] is CONFLICT
    task.bench.blobs.get = read  # type: ignore[method-assign]
    assert [body_of(task.queue, held) for held in claim(task.queue, owner="w", limit=9).claims] == [body] * 3


def down_blob(_key: str) -> bytes:
    raise AssertionError("a blob is judged by its digest")


# -- another try of the same run -------------------------------------------------------------------------------------


def done(task: Task) -> None:
    work_off(task)


def dead(task: Task) -> None:
    for held in claim(task.queue, owner="w").claims:
        nack(task.queue, held.entry, held.message, RunFailure("E", "broken"))


def held(task: Task) -> None:
    claim(task.queue, owner="w")


def past_its_window(task: Task) -> None:
    task.bench.clock.forward(61_000)


def done_and_past_its_window(task: Task) -> None:
    done(task)
    past_its_window(task)


SHORT = QueueSpec("Jobs", delivery=RetryPolicy(max_attempts=1), idempotency=Idempotency(window_seconds=60))
ANY = [done, dead, held, past_its_window, done_and_past_its_window]


@pytest.mark.parametrize("became", ANY, ids=lambda became: became.__name__)
@pytest.mark.parametrize("reads_first", [False, True])
def test_a_second_try_of_the_run_counts_as_inserted_and_runs_nothing_again(
    task: Task, became: Callable[[Task], None], reads_first: bool
) -> None:
    task.spec = SHORT
    row = task.row(1, copies=[b"body 1", b"other"])
    fate = [INSERTED, DUPLICATE, CONFLICT]
    assert [line.outcome for line in task.write([row])] == fate
    became(task)
    before = status(task.queue, row.id)
    again = task.writer(again=True, reads_first=reads_first)
    assert [line.outcome for lines in again.write([row]) for line in lines] == fate
    assert status(task.queue, row.id) == before
    assert len(task.lying()) == (0 if before.status.ended else 1)


@pytest.mark.parametrize(
    ("became", "outcome"),
    [
        (done, DUPLICATE),
        (dead, DUPLICATE),
        (held, DUPLICATE),
        (past_its_window, DUPLICATE),
        (done_and_past_its_window, INSERTED),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
@pytest.mark.parametrize("reads_first", [False, True])
def test_another_run_meets_a_duplicate_until_the_message_ended_and_its_window_is_over(
    memory_task: Task, became: Callable[[Task], None], outcome: RowOutcome, reads_first: bool
) -> None:
    task = memory_task
    task.spec = SHORT
    row = task.row(1)
    task.write([row])
    became(task)
    other = task.writer("run-2", again=True, reads_first=reads_first)
    (line,) = (line for lines in other.write([task.row(1, run="run-2")]) for line in lines)
    assert line.outcome is outcome
    if outcome is INSERTED:
        assert status(task.queue, row.id).status is MessageStatus.READY


def test_a_producers_message_is_never_taken_for_the_runs_own(task: Task) -> None:
    enqueue(task.queue, Draft(b"body 1", idempotency_key="key-1"))
    assert tally(task.write(task.rows([1]))) == {"duplicate": 1}


def test_the_runs_own_row_is_inserted_in_a_full_queue_even_when_it_ended_and_its_window_is_over(task: Task) -> None:
    task.spec = replace(SHORT, retention=Retention(max_depth=1))
    row = task.row(1)
    task.write([row])
    done_and_past_its_window(task)
    task.write(task.rows([2]), run="other", again=True)
    assert tally(task.write([row], stop_when_full=True, again=True)) == {"inserted": 1}
    assert status(task.queue, row.id).status is MessageStatus.DONE


# -- reading first ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reads", [False, True])
def test_a_task_that_meets_many_duplicates_reads_first_and_stops_to_when_they_end(
    memory_task: Task, reads: bool
) -> None:
    task = memory_task
    task.write(task.rows(range(2 * WINDOW)), run="earlier")
    writer = task.writer("run-2", reads_first=reads)
    lines, read, written = [], [], []
    for start in range(0, 5 * WINDOW, WINDOW):
        task.faulty.calls.clear()
        rows = task.rows(range(start, start + WINDOW), run="run-2")
        lines += [line for part in writer.write(rows) for line in part]
        read.append(sum(map(len, task.faulty.asked("get_messages"))))
        written.append(sum(map(len, task.faulty.asked("put_entries"))))
    assert read == [WINDOW * reads, WINDOW, WINDOW, 0, 0], "until a window of fresh ones shows that it no longer pays"
    assert written == [WINDOW * (not reads), 0, WINDOW, WINDOW, WINDOW]
    assert tally(lines) == {"duplicate": 2 * WINDOW, "inserted": 3 * WINDOW}
    assert task.lies_exactly(*task.rows(range(5 * WINDOW)))


@pytest.mark.parametrize(
    ("reads", "existing", "goes_on_reading"),
    [(False, 0.45, False), (False, 0.55, True), (True, 0.25, True), (True, 0.15, False)],
)
def test_the_share_of_a_window_decides_whether_to_read_first(
    memory_task: Task, reads: bool, existing: float, goes_on_reading: bool
) -> None:
    task = memory_task
    task.write(task.rows(range(round(WINDOW * existing))), run="earlier")
    writer = task.writer("run-2", reads_first=reads)
    for _ in writer.write(task.rows(range(WINDOW), run="run-2")):
        pass
    assert writer._share.reads_first is goes_on_reading, "each row counts once, read or written"


def test_reading_first_that_fails_settles_nothing_and_the_rows_are_written(task: Task) -> None:
    task.write(task.rows(range(5)), run="earlier")
    task.faulty.plan("get_messages", down)
    writer = task.writer("run-2", reads_first=True)
    lines = [line for part in writer.write(task.rows(range(10), run="run-2")) for line in part]
    assert tally(lines) == {"duplicate": 5, "inserted": 5}


def test_tenants_have_queues_of_their_own_and_share_no_batch(task: Task) -> None:
    tenants = [task.bench.tenant, f"{task.bench.tenant}-b", f"{task.bench.tenant}-c"]
    rows = [row for n in range(20) for tenant in tenants for row in task.rows([n], tenant=tenant)]
    lines = task.write(rows)
    assert tally(lines) == {"inserted": 60}
    assert [len(task.lying(tenant)) for tenant in tenants] == [20] * 3
    assert sorted(map(len, task.faulty.asked("put_entries"))) == [20] * 3, "however they are mixed"


def test_threads_write_side_by_side_and_lose_nothing(task: Task) -> None:
    rows = task.rows(range(300))
    task.write(rows[::3], run="earlier")
    lines = task.write(rows, run="run-2", threads=6, again=True)
    assert tally(lines) == {"duplicate": 100, "inserted": 200}
    assert task.lies_exactly(*rows)
    assert task.queue.state(fresh=True).depth == 300


def test_who_asked_hears_of_each_row_that_is_in_by_this_run(memory_task: Task) -> None:
    task = memory_task
    task.write(task.rows([1]), run="earlier")
    heard: list[Row] = []
    rows = [*task.rows(range(4)), task.row(9, reason="malformed")]
    for _ in range(2):
        task.write(rows, settled=lambda queue, row: heard.append(row))
    assert [row.position.offset for row in heard] == [0, 2, 3, 0, 2, 3]


def test_a_rate_of_rows_holds_batches_back(memory_task: Task) -> None:
    memory_task.write(memory_task.rows(range(100)), rows_per_s=10.0)
    assert memory_task.seconds == pytest.approx(7.5), "the first batch goes at once"


def test_no_rows_are_no_outcomes(memory_task: Task) -> None:
    assert memory_task.write([]) == []


def test_an_error_that_is_nobodys_outcome_ends_the_task(memory_task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark then tries it again, and the run's own messages count as inserted."""

    def broken(*_arguments: Any) -> Any:
        raise ValueError("a bug")

    monkeypatch.setattr(writer, "enqueue_checked", broken)
    with pytest.raises(ValueError, match="a bug"):
        memory_task.write(memory_task.rows([1]))


def test_a_filtered_row_is_recorded_and_not_queued(task: Task) -> None:
    rows = task.filtered_rows(range(30))
    assert set(outcomes(task.write(rows)).values()) == {FILTERED}
    assert {status(task.queue, row.id).status for row in rows} == {MessageStatus.FILTERED}
    assert task.lying() == []
    assert set(outcomes(task.write(rows, "run-2")).values()) == {FILTERED}, "a repeat meets its record"


def test_a_filtered_row_is_tried_again_until_patience_is_over(memory_task: Task) -> None:
    (row,) = memory_task.filtered_rows([1])
    memory_task.faulty.plan("put_messages", unsent)
    assert outcomes(memory_task.write([row])) == {1: FILTERED}
    (row,) = memory_task.filtered_rows([2])
    memory_task.faulty.plan("put_messages", always=unsent)
    assert outcomes(memory_task.write([row])) == {2: FAILED}


def test_a_filtered_row_that_fails_holds_up_no_order(memory_task: Task) -> None:
    memory_task.spec = QueueSpec("Jobs", ordering=Ordering.FIFO)
    memory_task.faulty.plan("put_messages", unsent)
    rows = [*memory_task.filtered_rows([1]), *memory_task.rows([2, 3])]
    assert outcomes(memory_task.write(rows, patience_s=0.0)) == {1: FAILED, 2: INSERTED, 3: INSERTED}
