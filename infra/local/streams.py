"""A table's stream, polled as Lambda's event source mapping does: for tests and the local stack.

with StreamPoller(endpoint_url, "millrace-queue", deliver) as poller: ...

`deliver` is called with an event of Lambda's shape, holding only records that pass the worker's filter: entries that
appeared. One thread reads every shard in turn. It starts at the end of the stream, like `StartingPosition: LATEST`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from threading import Event, Thread
from types import TracebackType
from typing import Any

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from infra.local.dynamodb import REGION

POLL_S = 0.05
READY_WITHIN_S = 30
BATCH = 100
#: What template.yaml gives the event source mapping, as code: INSERT of an item whose sk begins with R# or W#.
LANES = ("R#", "W#")

Deliver = Callable[[dict[str, Any]], object]


def passes(record: dict[str, Any]) -> bool:
    """The filter of the event source mapping."""
    sk = record["dynamodb"]["Keys"].get("sk", {}).get("S", "")
    return bool(record["eventName"] == "INSERT" and sk.startswith(LANES))


class StreamPoller:
    """Calls `deliver` for every batch of records, in a thread of its own."""

    def __init__(self, endpoint_url: str, table: str, deliver: Deliver, *, poll_s: float = POLL_S) -> None:
        session = boto3.session.Session(region_name=REGION)
        self._streams: Any = session.client("dynamodbstreams", endpoint_url=endpoint_url)
        dynamodb: Any = session.client("dynamodb", endpoint_url=endpoint_url)
        self._arn: str = dynamodb.describe_table(TableName=table)["Table"]["LatestStreamArn"]
        self._deliver = deliver
        self._poll_s = poll_s
        self._iterators: dict[str, str | None] = {}
        self._ended = Event()
        self._thread = Thread(target=self._run, name="stream-poller", daemon=True)

    def __enter__(self) -> StreamPoller:
        """Reading starts here: what is written from now on is delivered."""
        self._wait_for_a_shard()
        self._look_for_shards("LATEST")
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _wait_for_a_shard(self) -> None:
        """A stream just made has no shard for a moment, and DynamoDB Local keeps no record of what is written then."""
        end = time.monotonic() + READY_WITHIN_S
        while not self._streams.describe_stream(StreamArn=self._arn)["StreamDescription"]["Shards"]:
            if time.monotonic() > end:
                raise TimeoutError(f"The stream {self._arn} had no shard within {READY_WITHIN_S} s.")
            time.sleep(POLL_S)

    def _look_for_shards(self, where: str) -> None:
        """Shards not seen before: those that come later are read from their beginning."""
        start: dict[str, Any] = {}
        while True:
            described = self._streams.describe_stream(StreamArn=self._arn, **start)["StreamDescription"]
            for shard in described["Shards"]:
                if shard["ShardId"] not in self._iterators:
                    self._iterators[shard["ShardId"]] = self._streams.get_shard_iterator(
                        StreamArn=self._arn, ShardId=shard["ShardId"], ShardIteratorType=where
                    )["ShardIterator"]
            if "LastEvaluatedShardId" not in described:
                return
            start = {"ExclusiveStartShardId": described["LastEvaluatedShardId"]}

    def _run(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(ClientError, BotoCoreError):
                if all(iterator is None for iterator in self._iterators.values()):
                    self._look_for_shards("TRIM_HORIZON")
                self._read_all()
            self._ended.wait(self._poll_s)

    def _read_all(self) -> None:
        for shard, iterator in list(self._iterators.items()):
            if iterator is None:
                continue
            answer = self._streams.get_records(ShardIterator=iterator, Limit=BATCH)
            self._iterators[shard] = answer.get("NextShardIterator")
            if self._iterators[shard] is None:
                self._look_for_shards("TRIM_HORIZON")
            records = [record for record in map(self._record, answer["Records"]) if passes(record)]
            if records:
                self._deliver({"Records": records})

    def _record(self, found: dict[str, Any]) -> dict[str, Any]:
        """As Lambda hands it on: times as numbers, the stream's own name with it."""
        change = dict(found["dynamodb"])
        moment = change.get("ApproximateCreationDateTime")
        if moment is not None:
            change["ApproximateCreationDateTime"] = moment.timestamp()
        return {
            "eventID": found["eventID"],
            "eventName": found["eventName"],
            "eventVersion": found.get("eventVersion", "1.1"),
            "eventSource": "aws:dynamodb",
            "awsRegion": REGION,
            "dynamodb": change,
            "eventSourceARN": self._arn,
        }
