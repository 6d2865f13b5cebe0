"""Transactions both ways: an ack with the handler's writes, an enqueue within the caller's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack, follow_up, nack
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.engine.transact import Enqueuing, OnDuplicate, accept_with, end_with
from millrace.model.errors import (
    DuplicateMessage,
    InvalidField,
    InvalidTransaction,
    QueueFull,
    StaleClaim,
    StoreUnavailable,
    TransactionRefused,
)
from millrace.model.message import Draft
from millrace.model.queue_spec import Idempotency, Ordering, Retention
from millrace.model.queue_state import COMMIT_WITHIN_MS
from millrace.stores.interface import APPLIED, Unknown
from millrace.stores.memory.queue import REQUEST_TOKEN_MS
from tests.app_table import Orders, writes
from tests.conftest import Bench
from tests.engine.steps import BROKEN, only, put_one

FULL = Retention(max_depth=1)


def depth(queue: Queue) -> int:
    queue.runtime.credits.give_back()
    return queue.state(fresh=True).depth


def losing_answers(bench: Bench, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """The next transactions happen, and nobody hears of it."""
    transact, left = bench.store.transact, [count]

    def silent(*given: Any) -> Any:
        outcome = transact(*given)
        left[0] -= 1
        return Unknown(StoreUnavailable("the answer was lost")) if left[0] >= 0 else outcome

    monkeypatch.setattr(bench.store, "transact", silent)


# -- ack ------------------------------------------------------------------------------------------------------------


def test_an_ack_with_writes_is_done_and_counted(bench: Bench, orders: Orders) -> None:
    queue = bench.queue()
    message_id = put_one(queue)
    held = only(claim(queue, owner="w"))
    follow_up(queue, [end_with(queue, held.entry, writes(orders.put(7)), b'"ok"')])
    found = status(queue, message_id)
    assert found.status is MessageStatus.DONE
    assert found.result is not None
    assert found.result.snapshot == b'"ok"'
    assert orders.charges(7) == 1
    assert (queue.state(fresh=True).done, depth(queue)) == (1, 0)


def test_a_result_is_kept_also_where_the_queue_keeps_none(bench: Bench, orders: Orders) -> None:
    """It is what tells a lost answer of ours from somebody else's ending."""
    queue = bench.queue(idempotency=Idempotency(cache_result=False))
    put_one(queue)
    held = only(claim(queue, owner="w"))
    end_with(queue, held.entry, writes(orders.charge(7)))
    bench.clock.forward(60_000)
    end_with(queue, held.entry, writes(orders.charge(7)))
    assert orders.charges(7) == 1


def test_a_stale_claim_changes_nothing(bench: Bench, orders: Orders) -> None:
    queue = bench.queue()
    message_id = put_one(queue)
    slow = only(claim(queue, owner="slow"))
    bench.clock.forward(31_000)
    quick = only(claim(queue, owner="quick"))
    with pytest.raises(StaleClaim):
        end_with(queue, slow.entry, writes(orders.put(7)))
    assert orders.charges(7) is None
    assert status(queue, message_id).entry == quick.entry
    assert ack(queue, [quick.entry]) == [None]
    with pytest.raises(StaleClaim):
        end_with(queue, slow.entry, writes(orders.put(7)))
    assert orders.charges(7) is None


def test_a_condition_of_the_handlers_own_is_named_and_changes_nothing(bench: Bench, orders: Orders) -> None:
    queue = bench.queue()
    message_id = put_one(queue)
    held = only(claim(queue, owner="w"))
    with pytest.raises(TransactionRefused, match=r"write 2: ConditionCheck in orders.*attribute_exists") as refused:
        end_with(queue, held.entry, writes(orders.put(1), orders.check(7)))
    assert list(refused.value.reasons) == [1]
    assert orders.charges(1) is None
    assert status(queue, message_id).entry == held.entry
    nack(queue, held.entry, held.message, BROKEN)
    with pytest.raises(StaleClaim):
        end_with(queue, held.entry, writes(orders.put(1)))


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_is_resolved(bench: Bench, orders: Orders, monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    queue = bench.queue()
    put_one(queue)
    held = only(claim(queue, owner="w"))
    losing_answers(bench, monkeypatch, lost)
    end_with(queue, held.entry, writes(orders.charge(7)))
    assert orders.charges(7) == 1


def test_an_ack_that_is_never_answered_is_an_error(
    bench: Bench, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bench.queue()
    message_id = put_one(queue)
    held = only(claim(queue, owner="w"))
    losing_answers(bench, monkeypatch, 100)
    with pytest.raises(StoreUnavailable):
        end_with(queue, held.entry, writes(orders.charge(7)))
    assert orders.charges(7) == 1
    assert status(queue, message_id).status is MessageStatus.DONE


# -- enqueue --------------------------------------------------------------------------------------------------------


def test_a_message_is_enqueued_with_the_callers_writes(bench: Bench, orders: Orders) -> None:
    queue = bench.queue()
    (receipt,) = accept_with(bench.runtime, [Enqueuing(queue, Draft(b"x"))], writes(orders.put(7)))
    assert orders.charges(7) == 1
    assert only(claim(queue, owner="w")).message.id == receipt.message_id
    assert depth(queue) == 1


def test_nothing_is_enqueued_where_the_callers_condition_fails(bench: Bench, orders: Orders) -> None:
    queue = bench.queue(retention=FULL)
    for _ in range(2):  # the depth was given back
        with pytest.raises(TransactionRefused):
            accept_with(bench.runtime, [Enqueuing(queue, Draft(b"x"))], writes(orders.check(7)))
    assert claim(queue, owner="w").claims == []
    assert depth(queue) == 0


def test_a_full_queue_refuses_the_transaction(bench: Bench, orders: Orders) -> None:
    queue, roomy = bench.queue(retention=FULL), bench.queue("Roomy")
    put_one(queue)
    with pytest.raises(QueueFull):
        accept_with(
            bench.runtime, [Enqueuing(roomy, Draft(b"x")), Enqueuing(queue, Draft(b"x"))], writes(orders.put(7))
        )
    assert orders.charges(7) is None
    assert depth(roomy) == 0


def test_a_duplicate_fails_with_a_typed_error(bench: Bench, orders: Orders) -> None:
    queue = bench.queue()
    first = enqueue(queue, Draft(b"x", idempotency_key="k")).message_id
    with pytest.raises(DuplicateMessage) as duplicate:
        accept_with(bench.runtime, [Enqueuing(queue, Draft(b"x", idempotency_key="k"))], writes(orders.put(7)))
    assert (duplicate.value.message_id, duplicate.value.status) == (first, "ready")
    assert orders.charges(7) is None
    assert depth(queue) == 1


def test_a_duplicate_is_skipped_where_the_caller_says_so(bench: Bench, orders: Orders) -> None:
    queue = bench.queue()
    first = enqueue(queue, Draft(b"x", idempotency_key="k")).message_id
    wanted = [
        Enqueuing(queue, Draft(b"x", idempotency_key="k"), on_duplicate=OnDuplicate.SKIP),
        Enqueuing(queue, Draft(b"y")),
    ]
    skipped, sent = accept_with(bench.runtime, wanted, writes(orders.put(7)))
    assert (skipped.message_id, skipped.duplicate, skipped.status) == (first, True, MessageStatus.READY)
    assert not sent.duplicate
    assert orders.charges(7) == 1
    assert depth(queue) == 2


@pytest.mark.parametrize("ended", [True, False])
def test_a_key_is_free_again_when_its_message_has_ended_and_its_window_is_over(
    bench: Bench, orders: Orders, ended: bool
) -> None:
    queue = bench.queue(idempotency=Idempotency(window_seconds=1))
    wanted = [Enqueuing(queue, Draft(b"x", idempotency_key="k"))]
    accept_with(bench.runtime, wanted, ())
    held = only(claim(queue, owner="w"))
    bench.clock.forward(2_000)
    if not ended:
        with pytest.raises(DuplicateMessage):
            accept_with(bench.runtime, wanted, writes(orders.put(7)))
        return
    assert ack(queue, [held.entry]) == [None]
    (receipt,) = accept_with(bench.runtime, wanted, writes(orders.put(7)))
    assert receipt.message_id == held.message.id
    assert only(claim(queue, owner="w")).message.nonce != held.message.nonce
    assert orders.charges(7) == 1


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_of_an_enqueue_is_resolved(
    bench: Bench, orders: Orders, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    queue = bench.queue()
    losing_answers(bench, monkeypatch, lost)
    (receipt,) = accept_with(bench.runtime, [Enqueuing(queue, Draft(b"x", idempotency_key="k"))], writes(orders.put(7)))
    assert not receipt.duplicate
    assert orders.charges(7) == 1
    assert (len(claim(queue, owner="w", limit=5).claims), depth(queue)) == (1, 1)


def test_an_enqueue_that_is_never_answered_names_the_message(
    bench: Bench, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bench.queue()
    losing_answers(bench, monkeypatch, 100)
    with pytest.raises(StoreUnavailable, match="ask for the status of") as unknown:
        accept_with(bench.runtime, [Enqueuing(queue, Draft(b"x"))], writes(orders.put(7)))
    message_id = str(unknown.value).rstrip(".").rsplit(" ", 1)[1]
    assert status(queue, message_id).status is MessageStatus.READY
    assert depth(queue) == 1


def test_a_caller_that_slept_too_long_writes_nothing(
    bench: Bench, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its credit may be somebody else's by then."""
    queue = bench.queue()
    admit = bench.runtime.credits.admit

    def slowly(*given: Any) -> Any:
        admission = admit(*given)
        bench.clock.forward(COMMIT_WITHIN_MS + 1)
        return admission

    monkeypatch.setattr(bench.runtime.credits, "admit", slowly)
    with pytest.raises(StoreUnavailable, match="nothing was written"):
        accept_with(bench.runtime, [Enqueuing(queue, Draft(b"x"))], writes(orders.put(7)))
    assert orders.charges(7) is None


def unheard_for(bench: Bench, monkeypatch: pytest.MonkeyPatch, lost: int, meanwhile: Callable[[], object]) -> None:
    """The answer to transaction `lost` does not come; when it is tried again, its time is over."""
    transact, sent = bench.store.transact, [0]

    def silent(*given: Any) -> Any:
        outcome = transact(*given)
        sent[0] += 1
        if sent[0] != lost:
            return outcome
        assert outcome == APPLIED
        meanwhile()
        bench.clock.forward(REQUEST_TOKEN_MS)
        return Unknown(StoreUnavailable("the answer was lost"))

    monkeypatch.setattr(bench.store, "transact", silent)


def test_what_got_no_answer_is_never_called_unwritten(
    bench: Bench, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all messages are duplicates, nothing of the queue's own tells whether it happened."""
    queue = bench.queue()
    enqueue(queue, Draft(b"x", idempotency_key="k"))
    wanted = Enqueuing(queue, Draft(b"x", idempotency_key="k"), on_duplicate=OnDuplicate.SKIP)
    unheard_for(bench, monkeypatch, 2, lambda: None)
    with pytest.raises(StoreUnavailable, match=r"got no answer.*look at its own writes"):
        accept_with(bench.runtime, [wanted], writes(orders.charge(7)))
    assert orders.charges(7) == 1


def test_a_credit_that_may_be_spent_is_not_given_back(
    bench: Bench, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message has ended, and its key was taken by another: the ending gave its credit back already."""
    queue = bench.queue(idempotency=Idempotency(window_seconds=1))
    other = bench.queue(runtime=bench.another_process(), idempotency=Idempotency(window_seconds=1))

    def ends_and_is_replaced() -> None:
        assert ack(other, [only(claim(other, owner="w")).entry]) == [None]
        bench.clock.forward(2_000)
        assert not enqueue(other, Draft(b"y", idempotency_key="k")).duplicate

    unheard_for(bench, monkeypatch, 1, ends_and_is_replaced)
    with pytest.raises(StoreUnavailable, match="got no answer"):
        accept_with(bench.runtime, [Enqueuing(queue, Draft(b"x", idempotency_key="k"))], writes(orders.charge(7)))
    assert orders.charges(7) == 1
    other.runtime.credits.give_back()
    assert depth(queue) == 1


@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.PER_KEY])
def test_an_ordered_queue_keeps_the_order_of_a_transaction(bench: Bench, orders: Orders, ordering: Ordering) -> None:
    queue = bench.queue(ordering=ordering)
    before = enqueue(queue, Draft(b"0", key="k")).message_id
    receipts = accept_with(bench.runtime, [Enqueuing(queue, Draft(b"%d" % n, key="k")) for n in (1, 2)], ())
    after = enqueue(queue, Draft(b"3", key="k")).message_id
    seen = []
    while claims := claim(queue, owner="w").claims:
        seen.append(claims[0].message.id)
        ack(queue, [claims[0].entry])
    assert seen == [before, *(receipt.message_id for receipt in receipts), after]


def test_what_cannot_share_a_transaction_is_refused_before_anything_is_taken(bench: Bench, orders: Orders) -> None:
    queue = bench.queue()
    with pytest.raises(InvalidTransaction, match="same idempotency key"):
        accept_with(bench.runtime, [Enqueuing(queue, Draft(b"x", idempotency_key="k"))] * 2, ())
    with pytest.raises(InvalidTransaction, match="takes 100"):
        accept_with(bench.runtime, [Enqueuing(queue, Draft(b"x")) for _ in range(51)], ())
    with pytest.raises(InvalidField):
        accept_with(bench.runtime, [Enqueuing(queue, Draft(b"x", priority=-1))], writes(orders.put(7)))
    assert depth(queue) == 0
    assert orders.charges(7) is None


def test_what_the_filter_leaves_out_is_recorded_with_the_writes(bench: Bench, orders: Orders) -> None:
    queue = bench.queue()
    wanted = [Enqueuing(queue, Draft(b"x", idempotency_key="k"), filtered=True)]
    (receipt,) = accept_with(bench.runtime, wanted, writes(orders.charge(7)))
    (again,) = accept_with(bench.runtime, wanted, writes(orders.charge(7)))
    assert (receipt.status, receipt.duplicate, again.duplicate) == (MessageStatus.FILTERED, False, True)
    assert status(queue, receipt.message_id).status is MessageStatus.FILTERED
    assert orders.charges(7) == 2
    assert depth(queue) == 0
