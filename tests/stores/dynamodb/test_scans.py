"""A table read whole, segment by segment, at a pace."""

from __future__ import annotations

from typing import Any

from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.scans import scan_segment


class Scanned:
    """A client whose table has pages, each with its price."""

    def __init__(self, *pages: tuple[list[Any], float]) -> None:
        self.pages = pages
        self.asked: list[dict[str, Any]] = []

    def scan(self, **request: Any) -> dict[str, Any]:
        self.asked.append(request)
        number = request.get("ExclusiveStartKey", 0)
        items, units = self.pages[number]
        last = {"LastEvaluatedKey": number + 1} if number + 1 < len(self.pages) else {}
        return {"Items": items, "ConsumedCapacity": {"CapacityUnits": units}, **last}


class Pace:
    def __init__(self) -> None:
        self.taken: list[float] = []

    def take(self, units: float) -> None:
        self.taken.append(units)

    def correct(self, units: float) -> None:
        self.taken[-1] += units


def test_every_page_is_read_and_paid_for_at_its_price() -> None:
    client, pace = Scanned(([1, 2], 64.0), ([], 128.0), ([3], 0.5)), Pace()
    calls = RetryingClient(client)  # type: ignore[arg-type]
    pages: list[Any] = list(scan_segment(calls, "t", 3, 8, pace))
    assert pages == [[1, 2], [], [3]]
    assert pace.taken == [64.0, 128.0, 0.5]
    assert [(asked["Segment"], asked["TotalSegments"]) for asked in client.asked] == [(3, 8)] * 3


def test_the_next_page_waits_with_what_the_last_one_cost() -> None:
    taken: list[float] = []

    class Expecting(Pace):
        def take(self, units: float) -> None:
            taken.append(units)
            super().take(units)

    client = Scanned(([], 64.0), ([], 900.0), ([], 1.0))
    list(scan_segment(RetryingClient(client), "t", 0, 1, Expecting()))  # type: ignore[arg-type]
    assert taken == [1.0, 64.0, 128.0]


def test_segments_share_a_table_out(engine_client: Any, tables: TableNames, tenant: str) -> None:
    keys = {f"{tenant}-{number}" for number in range(40)}
    for key in keys:
        engine_client.put_item(TableName=tables.queue, Item={"pk": {"S": key}, "sk": {"S": "x"}})
    calls = RetryingClient(engine_client)
    found = [
        item["pk"]["S"]
        for segment in range(4)
        for page in scan_segment(calls, tables.queue, segment, 4, Pace())
        for item in page
    ]
    assert sorted(key for key in found if key in keys) == sorted(keys)
    for key in keys:
        engine_client.delete_item(TableName=tables.queue, Key={"pk": {"S": key}, "sk": {"S": "x"}})
