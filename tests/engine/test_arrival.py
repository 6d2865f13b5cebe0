"""Order numbers: by shard, in the order of arrival, and what happens where none are to be had."""

from __future__ import annotations

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import Receipt, enqueue, enqueue_all
from millrace.engine.finish import ack
from millrace.engine.queue import Queue
from millrace.model.errors import StoreUnavailable
from millrace.model.keys import order_of, shard_of
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import Ordering
from tests.conftest import Bench


def per_key(bench: Bench, shards: int = 8) -> Queue:
    return bench.queue(ordering=Ordering.PER_KEY, shards=shards)


def entries(queue: Queue) -> list[Entry]:
    return [entry for pk in queue.partitions() for entry in queue.store.read_lane(pk, "", "~", 100).items]


def test_each_shard_of_an_ordered_queue_counts_by_itself(bench: Bench) -> None:
    queue = per_key(bench)
    drafts = [Draft(b"x", key=f"k{number}") for number in range(30)]
    assert all(isinstance(answer, Receipt) for answer in enqueue_all(queue, drafts))
    enqueue(queue, Draft(b"x", key="k0"))
    found = entries(queue)
    by_shard: dict[str, list[int]] = {}
    for entry in found:
        by_shard.setdefault(entry.place.pk, []).append(int(order_of(entry.place)))
    assert len(by_shard) > 4
    assert all(sorted(numbers) == list(range(1, len(numbers) + 1)) for numbers in by_shard.values())


def test_messages_of_a_key_run_in_the_order_in_which_they_came(bench: Bench) -> None:
    queue = per_key(bench)
    sent = [enqueue_all(queue, [Draft(b"x", key=key) for key in ("a", "b", "a", "c")]) for _ in range(3)]
    expected = {
        "a": [
            answer.message_id for answers in sent for answer in (answers[0], answers[2]) if isinstance(answer, Receipt)
        ],
        "b": [answers[1].message_id for answers in sent if isinstance(answers[1], Receipt)],
    }
    ran: dict[str, list[str]] = {}
    while claims := claim(queue, owner="w", limit=25).claims:
        for held in claims:
            ran.setdefault(held.entry.key, []).append(held.entry.id)
        ack(queue, [held.entry for held in claims])
    assert {key: ran[key] for key in expected} == expected


def test_a_shard_without_an_answer_refuses_its_own_messages_alone(
    memory_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = memory_bench
    queue = per_key(bench)
    silent = shard_of(queue.spec, "a", "")
    take_numbers = bench.store.take_numbers
    monkeypatch.setattr(
        bench.store,
        "take_numbers",
        lambda tenant, name, counts: take_numbers(tenant, name, {s: n for s, n in counts.items() if s != silent}),
    )
    others = [f"k{number}" for number in range(20) if shard_of(queue.spec, f"k{number}", "") != silent]
    answers = enqueue_all(queue, [Draft(b"x", key=key) for key in ("a", *others)])
    assert isinstance(answers[0], StoreUnavailable)
    assert all(isinstance(answer, Receipt) for answer in answers[1:])
    assert len(entries(queue)) == len(others)
    queue.runtime.credits.give_back()
    assert queue.state(fresh=True).depth == len(others), "its credit came back"


def test_an_unordered_queue_takes_no_number(memory_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(type(memory_bench.store), "take_numbers")
    enqueue(memory_bench.queue(shards=4), Draft(b"x"))
