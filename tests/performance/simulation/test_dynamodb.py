"""The model of DynamoDB keeps AWS's limits: each of them by itself.

What it answers is held to the other stores by the conformance suite (`tests/stores`), which runs on it as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from millrace.stores.dynamodb.client import Declined
from tests.performance.simulation.dynamodb import Latency, SimulatedDynamoDB, size
from tests.performance.simulation.virtual_time import NOON, VirtualTime

FAST = Latency(read=(1, 1), write=(1, 1), tail_chance=0)


def item(pk: str, sk: str = "a", **values: str) -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}, **{name: {"S": value} for name, value in values.items()}}


def play(work: Callable[[VirtualTime, SimulatedDynamoDB], None], latency: Latency = FAST) -> SimulatedDynamoDB:
    time = VirtualTime()
    table = SimulatedDynamoDB(time, latency)
    time.spawn("client", lambda: work(time, table))
    time.run()
    return table


def test_a_partition_takes_a_thousand_write_units_a_second() -> None:
    refused = []

    def work(time: VirtualTime, table: SimulatedDynamoDB) -> None:
        for number in range(4_000):
            try:
                table.put_item(TableName="q", Item=item("hot", f"{number}"))
            except Declined as error:
                refused.append(error.response["Error"]["Code"])
        assert time.now - NOON == pytest.approx(4_000)

    # Four thousand in four seconds, one after another, are within the limit: a second's burst is spent first.
    assert play(work).bill.throttled["hot"] == 0

    def flood(time: VirtualTime, table: SimulatedDynamoDB) -> None:
        for number in range(200):
            statements = [
                {
                    "Statement": """INSERT INTO "q" VALUE {'pk': ?, 'sk': ?}""",
                    "Parameters": [{"S": "hot"}, {"S": f"{number}-{n}"}],
                }
                for n in range(25)
            ]
            table.batch_execute_statement(Statements=statements)

    table = play(flood)
    taken = 5_000 - table.bill.throttled["hot"]
    assert taken == pytest.approx(1_000 + 200, abs=25), "a second's worth at hand and 0.2 s of refill"


def test_other_partitions_are_not_throttled_by_a_hot_one() -> None:
    def work(time: VirtualTime, table: SimulatedDynamoDB) -> None:
        large = "x" * 100_000
        for number in range(20):
            try:
                table.put_item(TableName="q", Item=item("hot", f"{number}", body=large))
            except Declined:
                continue
        table.put_item(TableName="q", Item=item("cold"))

    table = play(work)
    assert table.bill.throttled["hot"] > 0
    assert table.bill.throttled["cold"] == 0


def test_a_partition_takes_three_thousand_read_units_a_second() -> None:
    def work(time: VirtualTime, table: SimulatedDynamoDB) -> None:
        table.put_item(TableName="q", Item=item("hot", body="x" * 40_000))
        for _ in range(1_000):
            try:
                table.get_item(TableName="q", Key=item("hot"))
            except Declined:
                continue

    table = play(work)
    # Ten units and a millisecond each: a second brings 3,000 of them, and 3,000 were at hand.
    assert table.bill.read_units == pytest.approx(6_000, abs=20)


def test_a_failed_condition_is_billed_as_a_write() -> None:
    def work(time: VirtualTime, table: SimulatedDynamoDB) -> None:
        table.put_item(TableName="q", Item=item("a"))
        with pytest.raises(Declined, match="ConditionalCheckFailed"):
            table.put_item(TableName="q", Item=item("a"), ConditionExpression="attribute_not_exists(pk)")

    table = play(work)
    assert (table.bill.write_units, table.bill.failed_conditions) == (2, 1)


def test_units_follow_the_size_of_the_item() -> None:
    def work(time: VirtualTime, table: SimulatedDynamoDB) -> None:
        table.put_item(TableName="q", Item=item("a", body="x" * 3_000))
        table.get_item(TableName="q", Key=item("a"))

    table = play(work)
    assert (table.bill.write_units, table.bill.read_units) == (3, 1)
    assert size(item("ab", "c")) == 2 + 2 + 2 + 1


def test_a_transaction_costs_twice_and_cancels_what_meets_it() -> None:
    codes = []
    time = VirtualTime()
    table = SimulatedDynamoDB(time, Latency(write=(10, 10), tail_chance=0))

    def transact() -> None:
        table.transact_write_items(TransactItems=[{"Put": {"TableName": "q", "Item": item("a")}}])

    def put() -> None:
        try:
            table.put_item(TableName="q", Item=item("a"))
        except Declined as error:
            codes.append(error.response["Error"]["Code"])

    def transact_too() -> None:
        try:
            transact()
        except Declined as error:
            codes.append(error.response["CancellationReasons"][0]["Code"])

    time.spawn("first", transact)
    time.spawn("put", put, after_ms=7)
    time.spawn("second", transact_too, after_ms=1)
    time.run()
    assert sorted(codes) == ["TransactionConflict", "TransactionConflictException"]
    assert table.bill.conflicts == 2


def test_a_repeated_request_token_does_nothing() -> None:
    def work(time: VirtualTime, table: SimulatedDynamoDB) -> None:
        add = {
            "TableName": "q",
            "Key": item("a"),
            "UpdateExpression": "ADD #n :one",
            "ExpressionAttributeNames": {"#n": "n"},
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
        for _ in range(3):
            table.transact_write_items(TransactItems=[{"Update": add}], ClientRequestToken="once")
        assert table.get_item(TableName="q", Key=item("a"))["Item"]["n"] == {"N": "1"}

    play(work)


def test_a_request_takes_its_time_and_now_and_then_much_longer() -> None:
    times = []

    def work(time: VirtualTime, table: SimulatedDynamoDB) -> None:
        for number in range(2_000):
            began = time.now
            table.put_item(TableName="q", Item=item(f"{number}"))
            times.append(time.now - began)

    play(work, Latency())
    usual = [millis for millis in times if millis <= 12]
    assert all(millis >= 5 for millis in usual)
    assert all(20 <= millis <= 50 for millis in times if millis > 12)
    assert 0.005 < 1 - len(usual) / len(times) < 0.02


def test_a_write_of_a_killed_client_happened_or_did_not() -> None:
    """Killed on the way to the table: nothing. Killed on the way back: written, and nobody was told."""
    for killed_at, written in ((5, False), (7, True)):
        time = VirtualTime()
        table = SimulatedDynamoDB(time, Latency(write=(10, 10), tail_chance=0))
        task = time.spawn("client", partial(table.put_item, TableName="q", Item=item("a")))
        time.run(killed_at)
        time.kill(task)
        time.run()
        found = table._get(("q", "a", "a")) is not None
        assert found is written


def test_the_same_seed_gives_the_same_bill() -> None:
    def work(time: VirtualTime, table: SimulatedDynamoDB) -> None:
        for number in range(100):
            table.put_item(TableName="q", Item=item(f"{number}"))
            time.sleep_ms(time.random.random())

    def ends(seed: int) -> float:
        time = VirtualTime(seed)
        table = SimulatedDynamoDB(time)
        time.spawn("client", lambda: work(time, table))
        time.run()
        return time.now

    assert ends(7) == ends(7) != ends(8)
