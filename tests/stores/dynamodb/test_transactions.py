"""What DynamoDB says of a transaction with an app's own writes, told in our words; nothing is repeated blindly."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.model.clock import system_entropy
from millrace.model.errors import InvalidTransaction
from millrace.model.ids import random_token
from millrace.stores.dynamodb.client import Declined
from millrace.stores.interface import APPLIED, AcceptStep, TooLate, Unknown, WritesRefused
from tests.app_table import NAME, Orders, writes
from tests.faults import client as faults
from tests.faults.client import RequestFault, StoreOnFaultyClient
from tests.stores.samples import Samples


@pytest.fixture
def orders(faulty: StoreOnFaultyClient, tenant: str, request: pytest.FixtureRequest) -> Orders:
    client = {"dynamodb": "dynamo_client", "ministack": "ministack_client"}[request.node.callspec.params["faulty"]]
    return Orders(faulty, tenant, request.getfixturevalue(client))


@pytest.fixture
def step(samples: Samples) -> AcceptStep:
    entry = samples.entry()
    return AcceptStep(samples.message(entry), entry)


def token() -> str:
    return random_token(system_entropy)


def refusing(code: str, *reasons: dict[str, Any]) -> RequestFault:
    def refuse(_send: Any, _operation: str, _arguments: Any) -> Any:
        raise Declined({"Error": {"Code": code, "Message": "as it says"}, "CancellationReasons": list(reasons)})

    return refuse


def test_the_queues_own_tables_are_not_the_apps_to_write(faulty: StoreOnFaultyClient, step: AcceptStep) -> None:
    faulty.faults.plan()
    for table in faulty._names:
        with pytest.raises(InvalidTransaction, match="a table of the queue's own"):
            faulty.transact([step], writes({"Delete": {"TableName": table, "Key": {"pk": {"S": "p"}}}}), token())
    assert faulty.faults.sent == []


def test_another_region_is_refused_before_anything_is_sent(faulty: StoreOnFaultyClient, step: AcceptStep) -> None:
    faulty.faults.plan()
    arn = f"arn:aws:dynamodb:mars-1:111122223333:table/{NAME}"
    with pytest.raises(InvalidTransaction, match="in mars-1"):
        faulty.transact([step], writes({"Delete": {"TableName": arn, "Key": {"pk": {"S": "p"}}}}), token())
    assert faulty.faults.sent == []


@pytest.mark.parametrize("code", ["ValidationException", "ResourceNotFoundException", "AccessDeniedException"])
def test_a_request_that_dynamodb_does_not_take_is_told(
    faulty: StoreOnFaultyClient, step: AcceptStep, orders: Orders, code: str
) -> None:
    faulty.faults.plan(refusing(code))
    with pytest.raises(InvalidTransaction, match=f"nothing was written: {code}"):
        faulty.transact([step], writes(orders.put(7)), token())


@pytest.mark.parametrize("fault", [faults.throttled, faults.conflict, faults.timed_out_before, faults.timed_out_after])
def test_a_fault_on_the_way_is_outlived(
    faulty: StoreOnFaultyClient, step: AcceptStep, orders: Orders, fault: RequestFault
) -> None:
    faulty.faults.plan(fault)
    assert faulty.transact([step], writes(orders.charge(7)), token()) == APPLIED
    assert orders.charges(7) == 1


@pytest.mark.parametrize("fault", [faults.timed_out_after, faults.throttled])
def test_a_repeat_without_time_left_is_unknown_where_an_earlier_try_may_have_happened(
    faulty: StoreOnFaultyClient, orders: Orders, fault: RequestFault
) -> None:
    """Without steps nothing of the queue's own tells."""
    faulty.faults.plan(fault)
    times = iter([True, False])
    outcome = faulty.transact([], writes(orders.charge(7)), token(), lambda: next(times))
    if fault is faults.throttled:
        assert (outcome, orders.charges(7)) == (TooLate(), None)
    else:
        assert isinstance(outcome, Unknown)
        assert orders.charges(7) == 1


def test_a_conflict_of_one_write_is_waited_out(faulty: StoreOnFaultyClient, step: AcceptStep, orders: Orders) -> None:
    conflict = {"Code": "TransactionConflict"}
    faulty.faults.plan(refusing("TransactionCanceledException", {"Code": "None"}, {"Code": "None"}, conflict))
    assert faulty.transact([step], writes(orders.charge(7)), token()) == APPLIED
    assert orders.charges(7) == 1


def test_a_repeat_that_the_apps_own_condition_would_refuse_is_recognised(
    faulty: StoreOnFaultyClient, step: AcceptStep, orders: Orders
) -> None:
    """As it is ten minutes later, when the request token is forgotten."""
    faulty.faults.plan()
    assert faulty.transact([step], writes(orders.put(7)), token()) == APPLIED
    none, failed = {"Code": "None"}, {"Code": "ConditionalCheckFailed"}
    faulty.faults.plan(refusing("TransactionCanceledException", none, none, failed))
    assert faulty.transact([step], writes(orders.put(7)), token()) == APPLIED


def test_other_reasons_are_named_without_the_item(
    faulty: StoreOnFaultyClient, step: AcceptStep, orders: Orders
) -> None:
    none = {"Code": "None"}
    wrong = {"Code": "ValidationError", "Message": "an operand has the wrong type", "Item": {"card": {"S": "4111"}}}
    faulty.faults.plan(refusing("TransactionCanceledException", none, none, wrong))
    outcome = faulty.transact([step], writes(orders.put(7)), token())
    assert isinstance(outcome, WritesRefused)
    assert "ValidationError: an operand has the wrong type" in outcome.reasons[0]
    assert "4111" not in str(outcome)


def test_silence_to_the_end_is_unknown(faulty: StoreOnFaultyClient, step: AcceptStep, orders: Orders) -> None:
    faulty.faults.plan(always=faults.timed_out_before)
    assert isinstance(faulty.transact([step], writes(orders.put(7)), token()), Unknown)
