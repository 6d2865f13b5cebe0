"""A handler's own writes with its ack, and its steps once: in the worker, through attempts, targets and lost claims."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.engine.claim import claim
from millrace.engine.dead_letters import list_dead_letters, replay
from millrace.engine.status import MessageStatus, status
from millrace.handlers.controls import Reject
from millrace.model.errors import StaleClaim, StoreUnavailable
from millrace.model.queue_spec import Jitter, Ordering, RetryPolicy
from millrace.stores.interface import Unknown
from millrace.worker import RunContext as Context
from tests.app_table import Orders
from tests.conftest import Bench
from tests.worker.conftest import ahead_of, drain, put, put_all
from tests.worker.definitions import TYPE
from tests.worker.rigs import TargetRig, put_n

ORDERINGS = pytest.mark.parametrize("ordering", list(Ordering))
SOON = RetryPolicy(3, 1_000, 1_000, Jitter.NONE)


@ORDERINGS
def test_staged_writes_are_made_with_the_ack(bench: Bench, orders: Orders, ordering: Ordering) -> None:
    queue = bench.queue(ordering=ordering)
    receipts = [put(queue, b'{"n":%d}' % n, key="k") for n in range(3)]

    def handle(context: Context) -> int:
        number = int(context.json()["n"])
        context.transact([orders.charge(number)])
        assert orders.charges(number) is None, "not before the handler returned"
        return number

    for _ in range(3):
        drain(queue, handle)
    assert [orders.charges(number) for number in range(3)] == [1, 1, 1]
    found = [status(queue, receipt.message_id) for receipt in receipts]
    assert [view.result.snapshot for view in found if view.result] == [b"0", b"1", b"2"]
    state = queue.state(fresh=True)
    queue.runtime.credits.give_back()
    assert (state.done, queue.state(fresh=True).depth) == (3, 0)


def test_messages_with_and_without_writes_end_side_by_side(bench: Bench, orders: Orders) -> None:
    queue = bench.queue()
    put_all(queue, 12)

    def handle(context: Context) -> None:
        number = int(context.json()["n"])
        if number % 2:
            context.transact([orders.charge(number)])

    assert drain(queue, handle).counts["done"] == 12
    assert [orders.charges(number) for number in range(12)] == [None, 1] * 6
    assert queue.state(fresh=True).done == 12


def test_a_handler_that_raises_writes_nothing(bench: Bench, orders: Orders) -> None:
    queue = bench.queue(delivery=SOON)
    put(queue)

    def handle(context: Context) -> None:
        context.transact([orders.charge(7)])
        if context.attempt == 1:
            raise ValueError("after it was staged")

    drain(queue, handle)
    assert orders.charges(7) is None
    bench.clock.forward(1_000)
    drain(queue, handle)
    assert orders.charges(7) == 1


@ORDERINGS
def test_a_refused_condition_is_a_failed_run_with_that_reason(bench: Bench, orders: Orders, ordering: Ordering) -> None:
    queue = bench.queue(delivery=SOON, ordering=ordering)
    receipt = put(queue, key="k")
    assert drain(queue, lambda context: context.transact([orders.check(7)])).counts["retried"] == 1
    (attempt,) = status(queue, receipt.message_id).history
    assert attempt.error_type == "TransactionRefused"
    assert "ConditionCheck" in attempt.error


def test_a_wrong_item_is_a_failed_run(bench: Bench, orders: Orders) -> None:
    queue = bench.queue(delivery=SOON)
    receipt = put(queue)
    drain(queue, lambda context: context.transact([{"Put": {}}]))
    (attempt,) = status(queue, receipt.message_id).history
    assert attempt.error_type == "InvalidTransaction"


def test_a_worker_that_lost_its_claim_writes_nothing(bench: Bench, orders: Orders) -> None:
    queue = bench.queue()
    put(queue)
    rival = ahead_of(bench, queue)

    def handle(context: Context) -> None:
        context.transact([orders.charge(7)])
        (taken,) = claim(rival, owner="rival").claims
        assert taken.entry.version == context.version + 1

    counts = drain(queue, handle).counts
    assert (counts["stale"], counts["done"]) == (1, 0)
    assert orders.charges(7) is None


def test_a_transaction_without_an_answer_leaves_the_message_to_whoever_comes_next(
    bench: Bench, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bench.queue()
    put(queue)
    silent: Any = lambda *_given: Unknown(StoreUnavailable("nothing heard"))  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "transact", silent)
        assert drain(queue, lambda context: context.transact([orders.charge(7)])).counts["unwritten"] == 1
    bench.clock.forward(31_000)
    drain(queue, lambda context: context.transact([orders.charge(7)]))
    assert orders.charges(7) == 1


def test_a_target_whose_writes_were_not_made_runs_again(bench: Bench, orders: Orders) -> None:
    """Of several targets one stages writes and one fails: what was staged is not done."""
    queues = f"""queue Jobs {{ {TYPE}  delivery {{ max_attempts: 3  initial_backoff_ms: 1000  max_backoff_ms: 1000 }}
      map_to: command Order.Charge {{ n: n }}  map_to: command Order.Tell {{ n: n }} }}"""
    rig = TargetRig(bench, queues)
    told: list[int] = []

    @rig.commands.command("Order.Charge")
    def charge(given: dict[str, int], context: Context) -> None:
        context.transact([orders.charge(given["n"])])

    @rig.commands.command("Order.Tell")
    def tell(given: dict[str, int], context: Context) -> None:
        told.append(context.attempt)
        if context.attempt == 1:
            raise ValueError

    message_id = put_n(rig.queue(), 7)
    rig.drain()
    assert orders.charges(7) is None
    bench.clock.forward(1_000)
    rig.drain()
    assert orders.charges(7) == 1
    assert status(rig.queue(), message_id).status is MessageStatus.DONE
    assert told == [1, 2]


# -- once -----------------------------------------------------------------------------------------------------------


def test_a_step_runs_once_over_all_attempts(bench: Bench) -> None:
    queue = bench.queue(delivery=SOON)
    put(queue)
    charged: list[str] = []
    seen: list[Any] = []

    def handle(context: Context) -> None:
        def charge() -> dict[str, str]:
            charged.append(context.idempotency_key("charge"))
            return {"id": "ch_1"}

        context.state.write({"mine": context.attempt})
        seen.append((context.once("charge", charge), context.idempotency_key("charge"), context.state.read()))
        if context.attempt < 3:
            raise ValueError

    for _ in range(3):
        drain(queue, handle)
        bench.clock.forward(1_000)
    assert len(charged) == 1
    assert seen == [({"id": "ch_1"}, charged[0], {"mine": attempt}) for attempt in (1, 2, 3)]


def test_a_step_does_not_run_once_the_claim_is_lost(bench: Bench) -> None:
    queue = bench.queue()
    put(queue)
    rival = ahead_of(bench, queue)
    ran: list[str] = []

    def handle(context: Context) -> None:
        claim(rival, owner="rival")
        with pytest.raises(StaleClaim):
            context.once("charge", lambda: ran.append("charge"))

    drain(queue, handle)
    assert ran == []


def test_what_a_stale_run_did_is_not_kept(bench: Bench) -> None:
    queue = bench.queue()
    put(queue)
    rival = ahead_of(bench, queue)
    kept: list[dict[str, Any]] = []

    def handle(context: Context) -> None:
        if context.version == 1:
            with pytest.raises(StaleClaim):
                context.once("charge", lambda: len(claim(rival, owner="rival").claims))
            return
        kept.append(context.state.steps())

    drain(queue, handle)
    bench.clock.forward(120_000)
    drain(queue, handle)
    assert kept == [{}]


def test_a_replay_has_the_keys_of_the_message_that_died(bench: Bench) -> None:
    queue = bench.queue()
    put(queue)
    keys: list[str] = []

    def handle(context: Context) -> None:
        keys.append(context.idempotency_key("charge"))
        raise Reject("no")

    for job in ("one", "two"):
        drain(queue, handle)
        replay(queue, list_dead_letters(queue).items[0], job)
        bench.clock.forward(1_000)
    drain(queue, handle)
    assert len(keys) == 3
    assert len(set(keys)) == 1
