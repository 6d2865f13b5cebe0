"""The model of Lambda, streams, schedules and S3 keeps AWS's rules: each of them by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.local.gateway import PAYLOAD_BYTES
from tests.performance.simulation.aws import (
    Function,
    FunctionError,
    Invocation,
    Lambda,
    SimulatedS3,
    Stream,
    Throttled,
    every,
)
from tests.performance.simulation.dynamodb import Latency, SimulatedDynamoDB
from tests.performance.simulation.virtual_time import NOON, VirtualTime


def function(time: VirtualTime, millis: float, seen: list[Any], **settings: Any) -> Function:
    """A function that takes its time and notes when it was called in which instance."""

    def make() -> Callable[[dict[str, Any], Invocation], Any]:
        own: list[int] = []

        def handler(event: dict[str, Any], context: Invocation) -> Any:
            own.append(1)
            seen.append((round(time.now - NOON), len(own)))
            time.sleep_ms(millis)
            return event.get("answer", "done")

        return handler

    return Function("work", make, cold_start_ms=(100, 100), **settings)


def test_an_instance_starts_cold_and_serves_one_at_a_time() -> None:
    time, seen = VirtualTime(), list[Any]()
    cloud = Lambda(time)
    cloud.add(function(time, 50, seen))
    for after in (0, 10, 500):
        time.spawn("caller", lambda: cloud.invoke("work", {}), after_ms=after)
    time.run()
    assert seen == [(100, 1), (110, 1), (500, 2)], "two instances, the third call finds one warm"
    assert cloud.functions["work"].cold_starts == 2


@pytest.mark.parametrize("where", ["reserved", "account"])
def test_beyond_the_concurrency_calls_are_throttled(where: str) -> None:
    time, refused = VirtualTime(), []
    cloud = Lambda(time, account_concurrency=2 if where == "account" else 1_000)
    cloud.add(function(time, 50, [], reserved=2 if where == "reserved" else None))

    def call() -> None:
        try:
            cloud.invoke("work", {})
        except Throttled as error:
            refused.append(error)

    for _ in range(3):
        time.spawn("caller", call)
    time.run()
    assert len(refused) == cloud.functions["work"].throttles == 1


def test_a_function_past_its_time_is_killed_and_its_instance_gone() -> None:
    time, errors = VirtualTime(), []
    cloud = Lambda(time)
    cloud.add(function(time, 5_000, [], timeout_s=1))

    def call() -> None:
        try:
            cloud.invoke("work", {})
        except FunctionError as error:
            errors.append((round(time.now - NOON), str(error)))

    time.spawn("caller", call)
    time.run()
    assert errors == [(1_000, "the function ran out of time or was killed")]
    assert cloud.functions["work"].idle == []


def test_an_answer_over_six_megabytes_is_dropped_after_the_work_was_done() -> None:
    time, seen, errors = VirtualTime(), list[Any](), list[str]()
    cloud = Lambda(time)
    cloud.add(function(time, 5, seen))

    def call(event: dict[str, Any]) -> None:
        try:
            cloud.invoke("work", event)
        except FunctionError as error:
            errors.append(str(error))

    time.spawn("caller", lambda: call({"answer": "x" * PAYLOAD_BYTES}))
    time.run()
    assert errors == ["RequestEntityTooLarge"]
    assert seen == []

    def large(_event: dict[str, Any], _context: Invocation) -> str:
        seen.append("ran")
        return "x" * PAYLOAD_BYTES

    cloud.functions["work"].make = lambda: large
    time.spawn("caller", lambda: call({}))
    time.run()
    assert errors[1:] == ["Function.ResponseSizeTooLarge"]
    assert seen == ["ran"]


def test_a_stream_lane_waits_for_its_invocation() -> None:
    time, seen = VirtualTime(), []
    dynamodb = SimulatedDynamoDB(time, Latency(write=(1, 1), tail_chance=0))

    def deliver(event: dict[str, Any]) -> None:
        seen.append((round(time.now - NOON), len(event["Records"])))
        time.sleep_ms(1_000)

    stream = Stream(time, "q", deliver)
    stream.attach(dynamodb)

    def put(sk: str) -> None:
        dynamodb.put_item(TableName="q", Item={"pk": {"S": "Q#t#Jobs#0"}, "sk": {"S": sk}})

    for after, sk in ((0, "R#1"), (200, "R#2"), (300, "R#3"), (310, "M"), (320, "R#1")):
        time.spawn("sender", partial(put, sk), after_ms=after)
    time.run()
    assert seen == [(101, 1), (1101, 2)], "the second batch waits; messages and rewritten entries wake nobody"
    assert stream.iterator_age_ms == pytest.approx(900, abs=1)


def test_a_record_that_grows_too_old_goes_to_the_failure_destination() -> None:
    time = VirtualTime()
    dynamodb = SimulatedDynamoDB(time, Latency(write=(1, 1), tail_chance=0))

    def deliver(_event: dict[str, Any]) -> None:
        raise Throttled("work")

    stream = Stream(time, "q", deliver)
    stream.attach(dynamodb)
    item = {"pk": {"S": "Q#t#Jobs#0"}, "sk": {"S": "R#1"}}
    time.spawn("sender", lambda: dynamodb.put_item(TableName="q", Item=item))
    time.run()
    assert stream.failed == 1
    assert time.now - NOON > 120_000


def test_a_schedule_fires_once_a_minute_and_a_little_late() -> None:
    time, seen = VirtualTime(), []
    every(time, 60, lambda: seen.append(time.now - NOON))
    time.run(200_000)
    assert len(seen) == 3
    assert all(0 <= at - 60_000 * (number + 1) <= 500 for number, at in enumerate(seen))


@pytest.mark.parametrize(("may_list", "status"), [(False, 403), (True, 404)])
def test_s3_answers_403_for_a_missing_key_unless_listing_is_allowed(*, may_list: bool, status: int) -> None:
    time, found = VirtualTime(), []
    s3 = SimulatedS3(time, may_list=may_list)

    def work() -> None:
        s3.put_object(Bucket="b", Key="k", Body=b"body")
        assert s3.get_object(Bucket="b", Key="k")["Body"].read() == b"body"
        with pytest.raises(ClientError) as error:
            s3.get_object(Bucket="b", Key="other")
        found.append(error.value.response["ResponseMetadata"]["HTTPStatusCode"])

    time.spawn("client", work)
    time.run()
    assert found == [status]
