"""Rows into ordered queues: in the order of the input, whatever is lost."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from millrace.model.queue_spec import Ordering, QueueSpec
from millrace.spark.rows import RowOutcome
from millrace.spark.writer import BEHIND
from tests.faults.store import each, lost, unsent
from tests.spark.task import Task, outcomes, tally

FAILED, INSERTED = (RowOutcome.FAILED, RowOutcome.INSERTED)


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
