"""Rows into the queue, whatever is lost on the way, and into a queue that is full."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.model.errors import QueueFull
from millrace.model.message import Draft
from millrace.model.queue_spec import Ordering, QueueSpec, Retention
from millrace.spark.rows import RowOutcome
from millrace.spark.writer import STOPPED
from millrace.stores.memory.queue import MemoryStore
from tests.conftest import Bench, Clock
from tests.faults.store import CallFault, down, each, lost, unsent
from tests.spark.task import Task, outcomes, tally, work_off

DUPLICATE, FAILED, INSERTED = (RowOutcome.DUPLICATE, RowOutcome.FAILED, RowOutcome.INSERTED)


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
