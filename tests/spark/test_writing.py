"""Rows into the queue: an exact outcome for each, whatever is lost on the way."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.engine.claim import body_of, claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, ack, nack
from millrace.engine.status import MessageStatus, status
from millrace.model.body import INLINE_LIMIT
from millrace.model.errors import QueueFull
from millrace.model.message import Draft
from millrace.model.queue_spec import Idempotency, Ordering, QueueSpec, Retention, RetryPolicy
from millrace.spark import writer
from millrace.spark.rows import Row, RowOutcome
from millrace.spark.writer import BEHIND, STOPPED, WINDOW
from millrace.stores.memory.queue import MemoryStore
from tests.conftest import Bench, Clock
from tests.faults.store import CallFault, down, each, lost, unsent
from tests.spark.task import Task, outcomes, tally

CONFLICT, DUPLICATE, FAILED, INSERTED, REJECTED = (
    RowOutcome.CONFLICT,
    RowOutcome.DUPLICATE,
    RowOutcome.FAILED,
    RowOutcome.INSERTED,
    RowOutcome.REJECTED,
)
#: As it is stored: in the message, packed in the message, in a blob, packed in a blob.
NOISE = b"".join(sha256(b"%d" % n).digest() for n in range(2_000))
BODIES = {"small": b'{"a": 1}', "packed": b'{"a": 1}' * 200, "blob": NOISE, "packed blob": NOISE + b" " * 9_000}


@pytest.fixture
def task(bench: Bench) -> Task:
    return Task(bench)


@pytest.fixture
def memory_task(memory_store: MemoryStore, clock: Clock, tenant: str) -> Task:
    return Task(Bench(memory_store, clock, tenant))


def work_off(task: Task, limit: int = 100) -> int:
    claims = claim(task.queue, owner="w", limit=limit).claims
    ack(task.queue, [held.entry for held in claims])
    return len(claims)


# -- outcomes --------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("befell", ANY, ids=lambda befell: befell.__name__)
@pytest.mark.parametrize("reads_first", [False, True])
def test_a_second_try_of_the_run_counts_as_inserted_and_runs_nothing_again(
    task: Task, befell: Callable[[Task], None], reads_first: bool
) -> None:
    task.spec = SHORT
    row = task.row(1, copies=[b"body 1", b"other"])
    fate = [INSERTED, DUPLICATE, CONFLICT]
    assert [line.outcome for line in task.write([row])] == fate
    befell(task)
    before = status(task.queue, row.id)
    again = task.writer(again=True, reads_first=reads_first)
    assert [line.outcome for lines in again.write([row]) for line in lines] == fate
    assert status(task.queue, row.id) == before
    assert len(task.lying()) == (0 if before.status.ended else 1)


@pytest.mark.parametrize(
    ("befell", "outcome"),
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
    memory_task: Task, befell: Callable[[Task], None], outcome: RowOutcome, reads_first: bool
) -> None:
    task = memory_task
    task.spec = SHORT
    row = task.row(1)
    task.write([row])
    befell(task)
    other = task.writer("run-2", again=True, reads_first=reads_first)
    (line,) = (line for lines in other.write([task.row(1, run="run-2")]) for line in lines)
    assert line.outcome is outcome
    if outcome is INSERTED:
        assert status(task.queue, row.id).status is MessageStatus.READY


def test_a_producers_message_is_never_taken_for_the_runs_own(task: Task) -> None:
    enqueue(task.queue, Draft(b"body 1", idempotency_key="key-1"))
    assert tally(task.write(task.rows([1]))) == {"duplicate": 1}


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


# -- faults ----------------------------------------------------------------------------------------------------------

PARTS = each(["works", "lost", "unsent"])
FAULTS: list[tuple[str, list[CallFault]]] = [
    ("put_entries", [lost]),
    ("put_entries", [unsent]),
    ("put_entries", [PARTS, PARTS]),
    ("put_messages", [lost]),
    ("put_messages", [unsent]),
    ("put_messages", [PARTS, PARTS]),
    ("put_messages", [unsent, lost, PARTS]),
    ("take_credits", [down, down]),
    ("drop_entries", [lost]),
]


@pytest.mark.parametrize(
    ("method", "plan"), FAULTS, ids=lambda value: value if isinstance(value, str) else str(len(value))
)
def test_lost_answers_change_no_outcome(task: Task, method: str, plan: list[CallFault]) -> None:
    enqueue(task.queue, task.row(1).draft)
    enqueue(task.queue, task.row(2, b"another", run="earlier").draft)
    task.faulty.plan(method, *plan)
    rows = task.rows(range(1, 41))
    lines = task.write(rows, run="run-2", again=True)
    assert tally(lines) == {"inserted": 38, "duplicate": 1, "conflict": 1}
    assert outcomes(lines)[1] is DUPLICATE
    assert task.lies_exactly(*rows)
    assert len(claim(task.queue, owner="w", limit=100).claims) == 40, "each can run, once"


def test_rows_wait_out_a_store_that_is_silent_for_a_while(task: Task) -> None:
    task.faulty.plan("take_credits", always=down)

    def heal() -> None:
        if task.seconds > 30:
            task.faulty.heal()

    task.while_asleep = heal
    rows = task.rows(range(60))
    assert tally(task.write(rows, threads=3)) == {"inserted": 60}
    assert task.lies_exactly(*rows)


def silent(task: Task) -> None:
    for method in ("put_entries", "put_messages"):
        task.faulty.plan(method, always=unsent)
    for method in ("take_credits", "get_messages", "settle"):
        task.faulty.plan(method, always=down)


def test_a_store_that_stays_silent_fails_every_row_once_patience_is_over_and_drops_none(memory_task: Task) -> None:
    task = memory_task
    silent(task)
    lines = task.write(task.rows(range(1_000)))
    assert tally(lines) == {"failed": 1_000}
    assert {line.reason for line in lines} == {"store_unavailable: no answer"}
    assert sorted(outcomes(lines)) == list(range(1_000))
    assert 60 <= task.seconds < 70, "the task's patience, not that of each batch in turn"
    assert task.lying() == []


def test_after_patience_was_lost_each_batch_is_still_tried_and_the_rest_goes_in_when_the_store_is_back(
    memory_task: Task,
) -> None:
    task = memory_task
    silent(task)
    writer = task.writer()
    lines = [line for part in writer.write(task.rows(range(100))) for line in part]
    assert tally(lines) == {"failed": 100}
    task.faulty.heal()
    task.faulty.plan("put_messages", PARTS, unsent)
    lines = [line for part in writer.write(task.rows(range(100, 200))) for line in part]
    assert tally(lines) == {"inserted": 100}, "what got through gave patience back"


def test_a_row_that_was_written_after_all_is_inserted_not_failed(task: Task) -> None:
    task.faulty.plan("put_messages", always=each(["lost", "unsent"]))
    rows = task.rows(range(10), copies=[b"other"])
    lines = task.write(rows)
    assert [outcomes(lines)[n] for n in range(10)] == [INSERTED, FAILED] * 5
    assert tally(lines) == {"inserted": 5, "failed": 5 + 5, "conflict": 5}
    assert task.lies_exactly(*rows[::2])


def test_what_another_run_wrote_meanwhile_is_a_duplicate_not_failed(task: Task) -> None:
    task.faulty.plan("take_credits", always=down)
    task.while_asleep = lambda: enqueue(  # type: ignore[assignment]
        task.bench.runtime.queue(task.bench.tenant, task.spec), task.row(1, run="other").draft
    )
    assert tally(task.write(task.rows([1]))) == {"duplicate": 1}


def test_failed_rows_run_again_end_well(task: Task) -> None:
    task.faulty.plan("put_messages", always=PARTS)
    rows = task.rows(range(30))
    first = task.write(rows, patience_s=0)
    assert tally(first)["failed"] > 0
    task.faulty.heal()
    assert tally(task.write(rows, again=True)) == {"inserted": 30}
    assert task.lies_exactly(*rows)


# -- a full queue ----------------------------------------------------------------------------------------------------


def tight(depth: int, ordering: Ordering = Ordering.UNORDERED) -> QueueSpec:
    return QueueSpec("Jobs", ordering=ordering, retention=Retention(max_depth=depth))


@pytest.mark.parametrize("ordering", [Ordering.UNORDERED, Ordering.FIFO, Ordering.PER_KEY])
def test_a_full_queue_is_waited_for_and_never_overfilled(memory_task: Task, ordering: Ordering) -> None:
    task = memory_task
    task.spec = tight(7, ordering)
    depths: list[int] = []

    def drain() -> None:
        depths.append(len(task.lying()))
        work_off(task, 1)

    task.while_asleep = drain
    rows = [task.row(n, key=f"k{n % 4}") for n in range(40)]
    lines = task.write(rows, patience_s=6)
    assert tally(lines) == {"inserted": 40}
    assert max(depths) == 7
    assert task.seconds > 6, "patience is for a queue that does not move"


def test_a_queue_that_stays_full_fails_the_rest_once_patience_is_over(memory_task: Task) -> None:
    task = memory_task
    task.spec = tight(10)
    lines = task.write(task.rows(range(500)))
    assert tally(lines) == {"inserted": 10, "failed": 490}
    assert {line.reason.partition(":")[0] for line in lines if line.outcome is FAILED} == {"queue_full"}
    assert 60 <= task.seconds < 70
    assert len(task.lying()) == 10


def test_stop_reports_what_is_there_and_fails_the_rest_without_waiting(task: Task) -> None:
    task.spec = tight(10)
    task.write(task.rows(range(100, 108)), run="earlier")
    rows = [*task.rows(range(20), run="run-2"), *task.rows(range(100, 108), run="run-2"), task.row(107, b"other")]
    lines = task.write(rows[:-1], run="run-2", stop_when_full=True, again=True)
    assert tally(lines) == {"inserted": 2, "duplicate": 8, "failed": 18}
    assert task.seconds < 1
    assert len(task.lying()) == 10
    lines = task.write([rows[-1]], run="run-2", stop_when_full=True, again=True)
    assert tally(lines) == {"conflict": 1}


def test_what_is_there_waits_for_no_room(task: Task) -> None:
    task.spec = tight(5)
    rows = task.rows(range(5))
    task.write(rows, run="earlier")
    assert tally(task.write(rows, run="run-2", again=True)) == {"duplicate": 5}
    assert task.seconds == 0


def test_the_runs_own_row_is_inserted_in_a_full_queue_even_when_it_ended_and_its_window_is_over(task: Task) -> None:
    task.spec = replace(SHORT, retention=Retention(max_depth=1))
    row = task.row(1)
    task.write([row])
    done_and_past_its_window(task)
    task.write(task.rows([2]), run="other", again=True)
    assert tally(task.write([row], stop_when_full=True, again=True)) == {"inserted": 1}
    assert status(task.queue, row.id).status is MessageStatus.DONE


def test_stop_stops_every_batch_that_comes_later(memory_task: Task) -> None:
    task = memory_task
    task.spec = tight(10)
    lines = task.write(task.rows(range(300)), stop_when_full=True)
    assert tally(lines) == {"inserted": 10, "failed": 290}
    assert len(task.faulty.asked("take_credits")) < 30, "later batches do not ask for room"
    assert STOPPED in {line.reason for line in lines}


def test_a_run_that_was_stopped_goes_on_when_there_is_room(task: Task) -> None:
    task.spec = tight(5)
    rows = task.rows(range(12))
    assert tally(task.write(rows, stop_when_full=True)) == {"inserted": 5, "failed": 7}
    work_off(task)
    task.bench.clock.forward(200)
    assert tally(task.write(rows, stop_when_full=True, again=True)) == {"inserted": 10, "failed": 2}
    work_off(task)
    task.bench.clock.forward(200)
    assert tally(task.write(rows, stop_when_full=True, again=True)) == {"inserted": 12}


def test_a_row_whose_own_first_try_filled_the_queue_is_inserted(task: Task) -> None:
    """The commit's answer is lost, and its credit with it: there is no room for the second try, and no need of any."""
    task.spec = tight(1)
    task.faulty.plan("put_messages", lost)
    assert tally(task.write(task.rows([1]), stop_when_full=True)) == {"inserted": 1}
    assert len(task.lying()) == 1


def test_credits_are_given_back_at_the_end(task: Task) -> None:
    for _ in task.writer().write(task.rows(range(37))):
        pass
    state = task.queue.state(fresh=True)
    assert (state.depth, state.arrived) == (37, 37)


def test_credits_are_given_back_when_a_source_fails(task: Task) -> None:
    def rows() -> Any:
        yield from task.rows(range(100))
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError):
        for _ in task.writer().write(rows()):
            pass
    assert task.queue.state(fresh=True).depth == 100


def test_credits_that_cannot_be_given_back_harm_no_report(memory_task: Task) -> None:
    memory_task.faulty.plan("settle", always=down)
    assert tally(memory_task.write(memory_task.rows(range(9)))) == {"inserted": 9}


# -- order -----------------------------------------------------------------------------------------------------------


def numbers(task: Task, key: str = "") -> list[int]:
    """Of the rows in the queue, in its order."""
    entries = [entry for entry in task.lying() if not key or entry.key == key]
    bodies = task.bench.store.get_messages([entry.id for entry in entries])
    return [int(bodies[entry.id].body.data.split()[1]) for entry in entries]


@pytest.mark.parametrize("method", ["put_entries", "put_messages"])
def test_fifo_keeps_the_order_of_its_rows_whatever_is_lost(task: Task, method: str) -> None:
    task.spec = QueueSpec("Jobs", ordering=Ordering.FIFO)
    dice = random.Random(3)
    task.faulty.plan(method, *[dice.choice([lost, unsent, each(["works"])]) for _ in range(30)])
    assert tally(task.write(task.rows(range(25)), threads=8)) == {"inserted": 25}
    assert numbers(task) == list(range(25))


@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.PER_KEY])
def test_one_thread_alone_writes_to_an_ordered_queue(memory_task: Task, ordering: Ordering) -> None:
    task = memory_task
    task.spec = QueueSpec("Jobs", ordering=ordering)
    names: set[str] = set()
    rows = task.rows(range(350), key="k")
    task.write(rows, threads=8, settled=lambda *_settled: names.add(threading.current_thread().name))
    assert len(names) == 1
    assert numbers(task) == list(range(350))


def test_per_key_keeps_the_order_of_each_key_whatever_is_lost(task: Task) -> None:
    task.spec = QueueSpec("Jobs", ordering=Ordering.PER_KEY)
    dice = random.Random(5)
    task.faulty.plan("put_messages", *[each(dice.choices(["works", "lost", "unsent"], k=5)) for _ in range(20)])
    rows = [task.row(n, key=f"k{dice.randrange(6)}") for n in range(60)]
    assert tally(task.write(rows, threads=8)) == {"inserted": 60}
    for key in {row.draft.key for row in rows}:
        assert numbers(task, key) == [row.position.offset for row in rows if row.draft.key == key]
    batches = task.faulty.asked("put_entries")
    assert all(len({entry.key for entry in batch}) == len(batch) for batch in batches), "never two of one key"
    assert max(map(len, batches)) > 1


def test_nothing_goes_in_ahead_of_a_row_that_failed_before_it(task: Task) -> None:
    task.spec = QueueSpec("Jobs", ordering=Ordering.PER_KEY)
    rows = [task.row(n, key=f"k{n % 3}") for n in range(12)]
    poisoned = rows[3].id  # of k0

    def fail(call: Any, arguments: Any) -> Any:
        (messages,) = arguments
        return each(["unsent" if message.id == poisoned else "works" for message in messages])(call, arguments)

    task.faulty.plan("put_messages", always=fail)
    lines = task.write(rows, patience_s=5)
    assert {n: o for n, o in outcomes(lines).items() if o is not INSERTED} == {3: FAILED, 6: FAILED, 9: FAILED}
    assert {line.reason for line in lines if line.position.offset in (6, 9)} == {BEHIND}
    assert (numbers(task, "k0"), numbers(task, "k1")) == ([0], [1, 4, 7, 10])
    task.faulty.heal()
    assert tally(task.write(rows, again=True)) == {"inserted": 12}
    assert numbers(task, "k0") == [0, 3, 6, 9]


def test_an_unordered_queue_goes_on_behind_a_row_that_failed(task: Task) -> None:
    task.faulty.plan("put_messages", unsent)
    assert tally(task.write(task.rows(range(50)), patience_s=0)) == {"failed": 25, "inserted": 25}


def test_batches_are_as_large_as_a_request_takes(task: Task) -> None:
    task.write(task.rows(range(110)))
    assert sorted(map(len, task.faulty.asked("put_entries"))) == [10, 25, 25, 25, 25]


# -- the rest --------------------------------------------------------------------------------------------------------


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

    monkeypatch.setattr(writer, "enqueue_all", broken)
    with pytest.raises(ValueError, match="a bug"):
        memory_task.write(memory_task.rows([1]))


fates = st.lists(st.sampled_from(["works", "works", "lost", "unsent"]), min_size=1, max_size=7)
calls = st.dictionaries(
    st.sampled_from(["put_entries", "put_messages", "drop_entries", "take_credits", "get_messages"]),
    st.lists(fates, max_size=4),
)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    before=st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=10, unique_by=lambda existing: existing[0]),
    keys=st.lists(st.integers(0, 40), min_size=1, max_size=70),
    other=st.sets(st.integers(0, 69)),
    bad=st.sets(st.integers(0, 40), max_size=4),
    depth=st.sampled_from([5, 40, 1_000]),
    ordering=st.sampled_from([Ordering.UNORDERED, Ordering.PER_KEY]),
    faults=calls,
    stop=st.booleans(),
)
def test_the_outcomes_of_any_input_add_up_and_equal_what_is_in_the_table(
    before: list[tuple[int, bool]],
    keys: list[int],
    other: set[int],
    bad: set[int],
    depth: int,
    ordering: Ordering,
    faults: dict[str, list[list[str]]],
    stop: bool,
) -> None:
    task = Task(Bench(MemoryStore(), Clock(), "t"))
    for key, same in before:
        enqueue_quietly(task, task.row(key, b"mine" if same else b"theirs", run="earlier", key="k").draft)
    task.spec = tight(depth, ordering)
    # As the folding of copies does it: the first row of a key is written, the others are its copies.
    bodies: dict[int, list[bytes]] = {}
    for number, key in enumerate(keys):
        bodies.setdefault(key, []).append(b"other" if number in other else b"mine")
    rows = [
        task.row(key, mine[0], copies=mine[1:], reason="bad" if key in bad else "", key=f"k{key % 3}", run="run-2")
        for key, mine in bodies.items()
    ]
    for method, plans in faults.items():
        raises = method in ("take_credits", "get_messages")
        task.faulty.plan(method, *[down if raises else each(plan) for plan in plans])
    lines = task.write(rows, run="run-2", stop_when_full=stop, patience_s=3, again=True)
    task.faulty.heal()
    existing = task.bench.store.get_messages([row.id for row in rows])
    assert len(lines) == len(keys)
    for line in lines:
        message = existing.get(line.row.id)
        body = line.copy.body if line.copy else line.row.draft.body
        match line.outcome:
            case RowOutcome.INSERTED:
                assert message is not None
                assert (message.run, message.body.data, line.copy) == ("run-2", body, None)
            case RowOutcome.DUPLICATE:
                assert message is not None
                assert message.body.data == body
                assert line.copy or message.run != "run-2"
            case RowOutcome.CONFLICT:
                assert message is not None
                assert message.body.data != body
            case RowOutcome.REJECTED:
                assert line.row.reason == "bad"
            case RowOutcome.FAILED:
                assert message is None or "get_messages" in faults, "it was looked for"
    assert len(task.lying()) == len({entry.id for entry in task.lying()}) <= max(depth, len(before))
    assert not any(existing.get(row.id) for row in rows if row.reason and row.id not in ids(task, before))


def ids(task: Task, before: list[tuple[int, bool]]) -> set[str]:
    return {task.row(key).id for key, _ in before}


def enqueue_quietly(task: Task, draft: Draft) -> None:
    try:
        enqueue(task.queue, draft)
    except QueueFull:
        return
