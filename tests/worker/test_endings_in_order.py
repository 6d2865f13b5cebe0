"""Batches of a fifo queue end together, their beginning first; what a handler staged ends alone, in its turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from millrace.engine.claim import claim
from millrace.engine.end_in_order import MOST_TOGETHER
from millrace.engine.operate import cancel_message
from millrace.engine.status import MessageStatus, status
from millrace.handlers.batches import Batch
from millrace.model.errors import StoreUnavailable
from millrace.model.message import Entry
from millrace.stores.interface import Unknown
from tests.app_table import Orders, writes
from tests.conftest import Bench, Clock
from tests.worker.conftest import ahead_of
from tests.worker.rigs import BatchRig, worker_of

RETRIES = "delivery { initial_backoff_ms: 1000  max_backoff_ms: 1000  backoff: none }"
FIFO = f"ordering: fifo  lease_seconds: 30  {RETRIES}"
DONE, IN_FLIGHT, READY = MessageStatus.DONE, MessageStatus.IN_FLIGHT, MessageStatus.READY


def note_endings(bench: Bench, patch: pytest.MonkeyPatch) -> list[Any]:
    """How many messages each ending took out: together, alone, or with writes of the app's."""
    noted: list[Any] = []
    for name, told in {"end_together": int, "end_entries": lambda _: "alone", "transact": lambda _: "writes"}.items():
        real = getattr(bench.store, name)

        def call(given: Sequence[Any], *rest: Any, real: Any = real, told: Any = told) -> Any:
            noted.append(told(len(given)))
            return real(given, *rest)

        patch.setattr(bench.store, name, call)
    return noted


def test_a_batch_that_is_done_ends_in_a_few_calls(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = BatchRig(bench, lambda batch: [{"n": item.input["n"]} for item in batch], FIFO, size=40)
    ids = rig.send(50)
    noted = note_endings(bench, monkeypatch)
    counts = rig.drain().counts
    assert (rig.calls, noted) == ([list(range(40)), list(range(40, 50))], [MOST_TOGETHER] * 5)
    assert (counts["started"], counts["done"]) == (50, 50)
    results = [status(rig.queue(), message_id).result for message_id in ids]
    assert [result.snapshot for result in results if result] == [b'{"n":%d}' % n for n in range(50)]
    rig.queue().runtime.credits.give_back()
    state = rig.queue().state(fresh=True)
    assert (state.done, state.depth) == (50, 0)


def test_what_lies_before_a_failure_ends_together(bench: Bench, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(batch: Batch) -> None:
        for item in batch:
            if item.input["n"] == 4 and item.context.attempt == 1:
                item.fail("broken")

    rig = BatchRig(bench, handler, FIFO)
    ids = rig.send(8)
    noted = note_endings(bench, monkeypatch)
    counts = rig.drain().counts
    assert (noted, counts["done"], counts["retried"], counts["released"]) == ([4], 4, 1, 3)
    clock.forward(1_001)
    rig.drain()
    assert (rig.calls, noted) == ([[*range(8)], [4], [5, 6, 7]], [4, "alone", 3])
    assert set(rig.statuses(ids)) == {DONE}


def test_staged_writes_of_a_batch_are_made_in_their_turn(
    bench: Bench, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies before is out by then, and the charge is made if and only if its message is done."""

    def handler(batch: Batch) -> None:
        for item in batch:
            if item.input["n"] in (3, 7):
                item.context.transact([orders.charge(item.input["n"])])

    rig = BatchRig(bench, handler, FIFO)
    ids = rig.send(10)
    noted = note_endings(bench, monkeypatch)
    assert rig.drain().counts["done"] == 10
    assert noted == [3, "writes", 3, "writes", "alone", "alone"]
    assert [orders.charges(n) for n in range(10)] == [1 if n in (3, 7) else None for n in range(10)]
    assert set(rig.statuses(ids)) == {DONE}


@pytest.mark.parametrize("settings", [RETRIES, FIFO], ids=["unordered", "fifo"])
def test_staged_writes_of_a_batch_are_refused_one_by_one(bench: Bench, orders: Orders, settings: str) -> None:
    """One order is there already: its message fails for that, and in a fifo queue nothing behind it counts."""

    def handler(batch: Batch) -> None:
        for item in batch:
            item.context.transact([orders.put(item.input["n"])])

    rig = BatchRig(bench, handler, settings)
    bench.store.transact([], writes(orders.put(1)), f"before {bench.tenant}")
    ids = rig.send(4)
    counts = rig.drain().counts
    assert orders.charges(0) == 1
    assert rig.statuses(ids)[0] is DONE
    assert counts["retried"] == 1
    in_order = settings == FIFO
    behind = [None, None] if in_order else [1, 1]
    assert [orders.charges(2), orders.charges(3)] == behind, "the effect, if and only if the message is done"
    assert [found is DONE for found in rig.statuses(ids)[2:]] == [not in_order] * 2


def test_a_claim_lost_in_the_middle_ends_what_lies_before_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole transaction is refused for one of ten: those before end one after another, those behind are free."""

    def handler(batch: Batch) -> None:
        if len(rig.calls) == 1:
            cancel_message(rig.queue(), batch[4].context.message_id, running=True)

    rig = BatchRig(bench, handler, FIFO)
    ids = rig.send(10)
    noted = note_endings(bench, monkeypatch)
    counts = rig.drain().counts
    assert noted[:6] == [10, *["alone"] * 5], "all, then each up to the one that is lost"
    assert (rig.calls[0], rig.calls[1:]) == ([*range(10)], [[5, 6, 7, 8, 9]])
    assert (counts["stale"], counts["released"], counts["done"]) == (1, 5, 9)
    assert [found for n, found in enumerate(rig.statuses(ids)) if n != 4] == [DONE] * 9


def test_behind_a_lost_claim_no_failure_is_charged_and_no_other_call_starts(bench: Bench) -> None:
    """What is lost lies in the first call, what fails behind it too, and more is claimed already."""

    def handler(batch: Batch) -> None:
        if len(rig.calls) == 1:
            cancel_message(rig.queue(), batch[1].context.message_id, running=True)
            batch[3].fail("broken")

    rig = BatchRig(bench, handler, FIFO, size=5)
    ids = rig.send(15)
    counts = rig.drain().counts
    assert rig.calls == [[0, 1, 2, 3, 4], [2, 3, 4, 5, 6], [7, 8, 9, 10, 11], [12, 13, 14]]
    assert (counts["stale"], counts["retried"], counts["done"]) == (1, 0, 14)
    assert [found for n, found in enumerate(rig.statuses(ids)) if n != 1] == [DONE] * 14


def test_behind_a_run_that_was_given_up_nothing_of_its_batch_counts(bench: Bench) -> None:
    """The heartbeat found its claim lost, or its time over, while the handler was still at it."""

    def handler(batch: Batch) -> None:
        if len(rig.calls) == 1:
            lost = {run.entry.id: run for run in job.pipeline.held()}[batch[2].context.message_id]
            job.heartbeat._endings.lose(lost)

    rig = BatchRig(bench, handler, FIFO)
    ids = rig.send(6)
    job = worker_of(rig)
    counts = job.run().counts
    assert rig.calls == [[0, 1, 2, 3, 4, 5]]
    assert (counts["done"], counts["lost"], counts["discarded"], counts["released"]) == (2, 1, 1, 3)
    assert rig.statuses(ids) == [DONE, DONE, IN_FLIGHT, READY, READY, READY]


def test_a_batch_whose_claims_are_taken_over_ends_nothing(bench: Bench) -> None:
    def handler(_batch: Batch) -> None:
        claim(ahead_of(bench, rig.queue()), owner="another", limit=10)

    rig = BatchRig(bench, handler, FIFO)
    ids = rig.send(5)
    counts = rig.drain().counts
    assert (counts["stale"], counts["done"]) == (1, 0)
    assert set(rig.statuses(ids)) == {IN_FLIGHT}


def test_a_lost_answer_of_a_batch_ends_it_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = BatchRig(bench, lambda _batch: None, FIFO)
    ids = rig.send(6)
    real, asked = bench.store.end_together, []

    def silent_once(entries: Sequence[Entry], token: str) -> Any:
        asked.append(token)
        outcome = real(entries, token)
        return outcome if len(asked) > 1 else Unknown(StoreUnavailable("no answer"))

    monkeypatch.setattr(bench.store, "end_together", silent_once)
    counts = rig.drain().counts
    assert (counts["done"], counts["stale"], len(asked), len(set(asked))) == (6, 0, 2, 1)
    assert set(rig.statuses(ids)) == {DONE}
    assert rig.queue().state(fresh=True).done == 6
