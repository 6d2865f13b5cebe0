"""Enqueue in the caller's transaction, through the one admission."""

from __future__ import annotations

import pytest

from millrace.admission.transaction import Transaction
from millrace.engine.claim import body_of, claim
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus
from millrace.model.errors import (
    DuplicateMessage,
    InvalidMessage,
    InvalidTransaction,
    TransactionRefused,
    UnknownQueue,
)
from tests.app_table import NAME, Orders
from tests.conftest import Bench
from tests.worker.definitions import compiled

DEFINITIONS = compiled(
    """
queue Charges {
  message_type { order: int  paid: bool  customer: string }
  ordering: per_key(customer)
  filter: !paid
  idempotency { key: string(order) }
  fed_by: api
  drained_by: api
}
"""
)


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return bench.runtime.queue(bench.tenant, DEFINITIONS.queue("Charges").spec)


def charge_of(number: int, *, paid: bool = False) -> dict[str, object]:
    return {"order": number, "paid": paid, "customer": "c"}


def transaction(bench: Bench) -> Transaction:
    return Transaction(bench.runtime, DEFINITIONS, bench.tenant)


def test_the_order_is_written_and_the_job_enqueued(bench: Bench, orders: Orders, queue: Queue) -> None:
    with transaction(bench) as both:
        both.write(orders.put(7))
        charge = both.enqueue("Charges", charge_of(7), correlation_id="corr")
        with pytest.raises(InvalidTransaction, match="not committed"):
            charge.receipt  # noqa: B018 (a property)
    assert orders.charges(7) == 1
    (held,) = claim(queue, owner="w").claims
    assert (held.message.id, held.entry.key, held.message.idempotency_key) == (charge.receipt.message_id, "c", "7")
    assert body_of(queue, held) == b'{"order": 7, "paid": false, "customer": "c"}'


def test_neither_where_the_block_raises(bench: Bench, orders: Orders, queue: Queue) -> None:
    def fails() -> None:
        with transaction(bench) as both:
            both.write(orders.put(7))
            both.enqueue("Charges", charge_of(7))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert orders.charges(7) is None
    assert claim(queue, owner="w").claims == []


def test_neither_where_the_callers_condition_fails(bench: Bench, orders: Orders, queue: Queue) -> None:
    both = transaction(bench)
    both.write(orders.check(7))
    both.enqueue("Charges", charge_of(7))
    with pytest.raises(TransactionRefused):
        both.commit()
    assert claim(queue, owner="w").claims == []


def test_a_duplicate_by_the_definitions_key_fails_or_is_skipped(bench: Bench, orders: Orders, queue: Queue) -> None:
    with transaction(bench) as both:
        first = both.enqueue("Charges", charge_of(7))
    both = transaction(bench)
    both.write(orders.charge(7))
    both.enqueue("Charges", charge_of(7))
    with pytest.raises(DuplicateMessage):
        both.commit()
    assert orders.charges(7) is None
    with transaction(bench) as both:
        both.write(orders.charge(7))
        again = both.enqueue("Charges", charge_of(7), on_duplicate="skip")
    assert again.receipt.duplicate
    assert again.receipt.message_id == first.receipt.message_id
    assert orders.charges(7) == 1


def test_what_the_filter_leaves_out_is_recorded(bench: Bench, orders: Orders, queue: Queue) -> None:
    with transaction(bench) as both:
        both.write(orders.put(7))
        charge = both.enqueue("Charges", charge_of(7, paid=True))
    assert charge.receipt.status is MessageStatus.FILTERED
    assert orders.charges(7) == 1
    assert claim(queue, owner="w").claims == []


def test_what_the_queue_does_not_take_is_refused_at_once(bench: Bench, orders: Orders) -> None:
    both = transaction(bench)
    with pytest.raises(InvalidMessage):
        both.enqueue("Charges", {"order": "seven"})
    with pytest.raises(UnknownQueue):
        both.enqueue("Chargse", {"order": 7})
    with pytest.raises(ValueError, match="perhaps"):
        both.enqueue("Charges", charge_of(7), on_duplicate="perhaps")
    both.write(orders.put(7))
    both.commit()
    with pytest.raises(InvalidTransaction, match="committed once"):
        both.commit()


def test_pynamodb_takes_it_as_its_connection(bench: Bench, orders: Orders, queue: Queue) -> None:
    from pynamodb.attributes import NumberAttribute, UnicodeAttribute
    from pynamodb.models import Model
    from pynamodb.transactions import TransactWrite

    class Order(Model):
        class Meta:
            table_name = NAME
            region = "eu-west-1"

        pk = UnicodeAttribute(hash_key=True)
        sk = UnicodeAttribute(range_key=True)
        charges = NumberAttribute(default=0)

    key = orders.key(7)
    for expected in (1, None):
        both = transaction(bench)
        with TransactWrite(connection=both) as order:
            order.save(Order(key["pk"]["S"], key["sk"]["S"], charges=1), condition=Order.pk.does_not_exist())
        both.enqueue("Charges", charge_of(7 if expected else 8))
        if expected:
            both.commit()
        else:
            with pytest.raises(TransactionRefused):
                both.commit()
    assert orders.charges(7) == 1
    assert len(claim(queue, owner="w", limit=5).claims) == 1
