"""The client of a bulk task: its writes keep the throttle, and the throttle hears what they cost."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.engine.enqueue import enqueue_all
from millrace.engine.queue import Runtime
from millrace.model.message import Body, Draft, Message, Place
from millrace.model.queue_spec import Ordering, QueueSpec
from millrace.spark.adaptive_throttle import AdaptiveThrottle
from millrace.spark.metered_client import MeteredClient, units_of
from millrace.stores.dynamodb.client import Declined, NoAnswer, TableNames
from millrace.stores.dynamodb.conditions import ABSENT, holds_token
from millrace.stores.dynamodb.items import Item, entry_item, message_item
from millrace.stores.dynamodb.retrying_client import THROTTLED
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.writes import delete, put
from millrace.stores.memory.queue import MemoryBlobs
from tests.faults.client import Time, client_error
from tests.performance.costs.meter import units
from tests.stores.sizes import item_bytes, largest_entry

SMALL = [put("table", {"pk": {"S": str(n)}, "sk": {"S": "M"}}, ABSENT).statement() for n in range(25)]


class Scripted:
    """A client that answers as the test says."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []

    def _send(self, **request: Any) -> dict[str, Any]:
        self.requests.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    batch_execute_statement = put_item = delete_item = batch_get_item = _send


def metered(
    answer: dict[str, Any] | Exception, units_per_s: float | None = 100
) -> tuple[MeteredClient, Scripted, Time]:
    time, scripted = Time(), Scripted(answer)
    client = MeteredClient(scripted)
    client.throttle = AdaptiveThrottle(units_per_s, monotonic=time.monotonic, sleep=time.sleep)
    return client, scripted, time


def answers(*codes: str) -> list[dict[str, Any]]:
    return [{"Error": {"Code": code}} if code else {} for code in codes]


def test_a_batch_waits_for_its_turn_and_asks_for_its_price() -> None:
    client, scripted, time = metered({"Responses": answers(*[""] * 25)})
    for _ in range(3):
        client.batch_execute_statement(Statements=SMALL)
    assert sum(time.waits) == pytest.approx(0.5)
    assert scripted.requests == [{"Statements": SMALL, "ReturnConsumedCapacity": "TOTAL"}] * 3
    assert client.throttle.spending.units == 75


def test_what_the_table_charged_counts_instead_of_the_estimate() -> None:
    charged = [{"TableName": "table", "CapacityUnits": 40.0}, {"TableName": "other", "CapacityUnits": 10.0}]
    client, _, time = metered({"Responses": answers(*[""] * 25), "ConsumedCapacity": charged})
    client.batch_execute_statement(Statements=SMALL)
    client.batch_execute_statement(Statements=SMALL)
    assert client.throttle.spending.units == 100
    assert sum(time.waits) == pytest.approx(0.5)


def test_statements_turned_away_lower_the_rate_once_and_are_counted_each() -> None:
    throttled = ["ThrottlingError", "ProvisionedThroughputExceeded", "", "DuplicateItem", *[""] * 21]
    client, _, _ = metered({"Responses": answers(*throttled)})
    client.batch_execute_statement(Statements=SMALL)
    assert client.throttle.rate == pytest.approx(70)
    assert client.throttle.spending.throttled == 2


def test_refusals_that_are_no_throttles_leave_the_rate_alone() -> None:
    client, _, _ = metered({"Responses": answers("DuplicateItem", "ConditionalCheckFailed", "InternalServerError")})
    client.batch_execute_statement(Statements=SMALL[:3])
    assert (client.throttle.rate, client.throttle.spending.throttled) == (100, 0)


@pytest.mark.parametrize("code", sorted(THROTTLED))
@pytest.mark.parametrize("raised", ["boto3", "minimal"])
def test_a_request_turned_away_whole_lowers_the_rate_and_costs_nothing(code: str, raised: str) -> None:
    error = client_error("op", code) if raised == "boto3" else Declined({"Error": {"Code": code}})
    client, _, _ = metered(error)
    with pytest.raises(type(error)):
        client.batch_execute_statement(Statements=SMALL)
    spending = client.throttle.spending
    assert client.throttle.rate == pytest.approx(70)
    assert (spending.throttled, spending.units) == (25, 0)


@pytest.mark.parametrize("error", [NoAnswer("op"), client_error("op", "InternalServerError", 500), OSError("gone")])
def test_silence_is_no_throttle_and_may_have_cost_what_was_sent(error: Exception) -> None:
    client, _, _ = metered(error)
    with pytest.raises(type(error)):
        client.batch_execute_statement(Statements=SMALL)
    spending = client.throttle.spending
    assert (client.throttle.rate, spending.throttled, spending.units) == (100, 0, 25)


def test_single_writes_keep_the_pace_as_well() -> None:
    """An ordered queue writes one row at a time."""
    client, scripted, time = metered({"ConsumedCapacity": {"TableName": "table", "CapacityUnits": 3.0}})
    item: Item = {"pk": {"S": "p"}, "sk": {"S": "s"}, "body": {"B": b"x" * 2_500}}
    client.put_item(TableName="table", Item=item)
    assert client.throttle.spending.units == 3
    client.delete_item(TableName="table", Key={})
    assert client.throttle.spending.units == 6
    client.put_item(TableName="table", Item=item)
    assert sum(time.waits) == pytest.approx(0.06)
    assert scripted.requests[0] == {"TableName": "table", "Item": item, "ReturnConsumedCapacity": "TOTAL"}


def test_a_single_write_turned_away_lowers_the_rate() -> None:
    client, _, _ = metered(client_error("put_item", "ThrottlingException"))
    with pytest.raises(Exception, match="ThrottlingException"):
        client.put_item(Item={"pk": {"S": "p"}})
    assert client.throttle.rate == pytest.approx(70)
    assert client.throttle.spending.throttled == 1


def test_reads_are_not_held_back() -> None:
    client, scripted, time = metered({"Responses": {}}, units_per_s=1)
    for _ in range(10):
        assert client.batch_get_item(RequestItems={}) == {"Responses": {}}
    assert (time.waits, client.throttle.spending.units) == ([], 0)
    assert scripted.requests[0] == {"RequestItems": {}}


SAMPLE = Message(
    id="i" * 32,
    tenant="tenant",
    queue="Jobs",
    nonce="n" * 22,
    place=Place("Q#tenant#Jobs#0", "R#9949#" + "0" * 32),
    body=Body(b"", size=0),
    content_type="application/json",
    received_at=1_800_000_123_457,
    dedupe_until=1_800_086_523_457,
    ttl=1_801_000_123,
    correlation_id="c" * 22,
    idempotency_key="order-4711",
    source="bulk",
    run="0197" * 8,
)


texts = st.text("aé✓😀", max_size=60)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(
    body=st.integers(0, 5_000),
    headers=st.dictionaries(st.text("abc-", min_size=1, max_size=20), texts, max_size=6),
    key=texts,
    at=st.integers(0, 9_999_999_999_999),
)
def test_units_are_those_of_the_item_by_dynamodbs_rules(body: int, headers: dict[str, str], key: str, at: int) -> None:
    message = replace(SAMPLE, body=Body(b"b" * body, size=body), headers=headers, idempotency_key=key, received_at=at)
    item = message_item(message)
    # A number that ends in zeros is stored a little shorter than it is written.
    most = math.ceil((item_bytes(item) + 10) / 1024)
    assert units(item) <= units_of(put("any-table", item, ABSENT).statement()) <= most


def test_text_counts_in_its_bytes() -> None:
    item: Item = {"pk": {"S": "p"}, "sk": {"S": "s"}, "idem": {"S": "é" * 600}}
    assert units_of(put("table", item, ABSENT).statement()) == units(item) == 2


def test_an_entry_is_one_unit_and_so_is_its_removal() -> None:
    assert units_of(put("t" * 255, entry_item(largest_entry()), ABSENT).statement()) == 1
    assert units_of(delete("table", {"pk": {"S": "p"}, "sk": {"S": "s"}}, holds_token("t")).statement()) == 1


class Ruled:
    """A client that charges each write by DynamoDB's rules, since DynamoDB Local does not."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.units = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def batch_execute_statement(self, **request: Any) -> Any:
        for statement in request["Statements"]:
            names = re.findall(r"'(\w+)': \?", statement["Statement"])
            self.units += units(dict(zip(names, statement["Parameters"], strict=True))) if names else 1
        return self._client.batch_execute_statement(**request)

    def put_item(self, **request: Any) -> Any:
        self.units += units(request["Item"])
        return self._client.put_item(**request)


@pytest.mark.parametrize("ordering", [Ordering.UNORDERED, Ordering.FIFO])
def test_the_units_of_an_enqueue_are_counted_as_they_will_be_charged(
    engine_client: Any, tables: TableNames, tenant: str, ordering: Ordering
) -> None:
    ruled = Ruled(engine_client)
    client: Any = MeteredClient(ruled)
    runtime = Runtime(DynamoStore(client, tables), MemoryBlobs())
    queue = runtime.queue(tenant, QueueSpec("Jobs", ordering=ordering))
    for batch in range(3):
        size = 1 if ordering.ordered else 20
        enqueue_all(queue, [Draft(bytes(range(256)) * n, source="bulk", run="r") for n in range(batch, batch + size)])
    assert client.throttle.spending.units == ruled.units > 0
