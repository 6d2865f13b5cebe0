"""DynamoDB in virtual time: what it answers, how long it takes, what it charges, and when it throttles.

It stands where a client stands, under the real store, its retries included. It answers as the conformance suite asks
(the suite runs on it), and it has what emulators lack: latencies with tails, 1,000 write and 3,000 read units a second
for a partition, failed conditions that are billed, transactions that cost twice and cancel each other.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sortedcontainers import SortedDict  # type: ignore[import-untyped]

from millrace.stores.dynamodb.client import Declined
from tests.performance.simulation.expressions import Item, compare, condition, statement, update
from tests.performance.simulation.virtual_time import VirtualTime

#: What AWS documents; the page of facts beside the design names the sources.
PARTITION_WRITE_UNITS = 1_000
PARTITION_READ_UNITS = 3_000
WRITE_UNIT, READ_UNIT = 1_024, 4_096
PAGE_BYTES = 1 << 20
THROTTLED = "ProvisionedThroughputExceededException"


@dataclass(frozen=True, slots=True)
class Latency:
    """How long a request takes, in milliseconds: usually between two bounds, now and then in a tail."""

    read: tuple[float, float] = (3.0, 6.0)
    write: tuple[float, float] = (5.0, 12.0)
    tail: tuple[float, float] = (20.0, 50.0)
    tail_chance: float = 0.01


@dataclass(slots=True)
class Bucket:
    """Units that a partition may still take now: refilled all the time, a second's worth at most."""

    per_second: float
    left: float
    at: float

    def take(self, units: float, now: float) -> bool:
        """DynamoDB lets a request through while anything is left, and charges what it turned out to cost."""
        self.left = min(self.per_second, self.left + (now - self.at) * self.per_second / 1000)
        self.at = now
        if self.left <= 0:
            return False
        self.left -= units
        return True


@dataclass
class Bill:
    """What was charged."""

    write_units: float = 0.0
    read_units: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)
    throttled: Counter[str] = field(default_factory=Counter)  #: by partition
    failed_conditions: int = 0
    conflicts: int = 0
    writes_by_partition: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    def hottest(self) -> tuple[str, float]:
        """The partition with the most write units in one second, and how many those were."""
        peaks = {pk: max(seconds.values()) for pk, seconds in self.writes_by_partition.items()}
        return max(peaks.items(), key=lambda pair: pair[1]) if peaks else ("", 0.0)


Key = tuple[str, str, str]  #: table, pk, sk
#: Called after a write: table, key, the item before and after it.
Watcher = Callable[[str, Item, Item | None, Item | None], None]


class SimulatedDynamoDB:
    """Both tables, and a client's methods on them. Every request is made by a task of the virtual time."""

    def __init__(self, time: VirtualTime, latency: Latency | None = None, *, limits: bool = True) -> None:
        self._time = time
        self._latency = latency or Latency()
        self.limits = limits
        self._partitions: dict[tuple[str, str], SortedDict[str, Item]] = {}
        self._buckets: dict[tuple[str, str, str], Bucket] = {}
        self._in_transaction: set[Key] = set()
        self._answered: dict[str, float] = {}  #: client request tokens, for ten minutes
        self._watchers: list[Watcher] = []
        self.bill = Bill()
        self.refuse: Callable[[str], bool] = lambda _pk: False  #: a partition that throttles whatever it has left

    def items(self, table: str, partitions: Iterable[str]) -> Iterator[Item]:
        """The items of some partitions, to be changed in place: for scenarios that begin in the middle of something."""
        for pk in partitions:
            yield from self._partitions.get((table, pk), SortedDict()).values()

    def lay(self, table: str, item: Item) -> None:
        """Put an item there without a request, for scenarios that begin in the middle of something."""
        self._write((table, item["pk"]["S"], item["sk"]["S"]), None, item)

    def watch(self, watcher: Watcher) -> None:
        """Be called after every write, as a stream is."""
        self._watchers.append(watcher)

    # -- single items -------------------------------------------------------------------------------------------
    def put_item(self, **request: Any) -> dict[str, Any]:
        return self._single("put_item", request, request["Item"], lambda _old: request["Item"])

    def update_item(self, **request: Any) -> dict[str, Any]:
        changes = update(request["UpdateExpression"], request.get("ExpressionAttributeNames"))
        values = request.get("ExpressionAttributeValues", {})

        def changed(old: Item | None) -> Item:
            item = dict(old) if old is not None else dict(request["Key"])
            for change in changes:
                change(item, values)
            return item

        return self._single("update_item", request, request["Key"], changed)

    def delete_item(self, **request: Any) -> dict[str, Any]:
        return self._single("delete_item", request, request["Key"], lambda _old: None)

    def _single(
        self, operation: str, request: Any, key: Item, made: Callable[[Item | None], Item | None]
    ) -> dict[str, Any]:
        place = _place(request["TableName"], key)
        rest = self._begin(operation, self._latency.write)
        old = self._get(place)
        holds = condition(request.get("ConditionExpression"), request.get("ExpressionAttributeNames"))
        new = made(old)
        if not self._charge_write(place, max(size(old), size(new))):
            self._end(rest)
            raise _declined(THROTTLED)
        if place in self._in_transaction:
            self.bill.conflicts += 1
            self._end(rest)
            raise _declined("TransactionConflictException")
        if not holds(old, request.get("ExpressionAttributeValues", {})):
            self.bill.failed_conditions += 1
            self._end(rest)
            raise _declined("ConditionalCheckFailedException", old, request)
        self._write(place, old, new)
        self._end(rest)
        return {"Attributes": new} if request.get("ReturnValues") == "ALL_NEW" else {}

    def get_item(self, **request: Any) -> dict[str, Any]:
        place = _place(request["TableName"], request["Key"])
        rest = self._begin("get_item", self._latency.read)
        found = self._get(place)
        admitted = self._charge_read(place, size(found))
        self._end(rest)
        if not admitted:
            raise _declined(THROTTLED)
        return {} if found is None else {"Item": dict(found)}

    # -- many items ---------------------------------------------------------------------------------------------
    def query(self, **request: Any) -> dict[str, Any]:
        table, values = request["TableName"], request["ExpressionAttributeValues"]
        pk = values[":pk"]["S"]
        rest = self._begin("query", self._latency.read)
        items: list[Item] = []
        read = 0
        more = False
        limit = request.get("Limit", 1 << 30)
        for item in self._in_range(table, pk, request):
            if len(items) == limit or read > PAGE_BYTES:
                more = True
                break
            items.append(dict(item))
            read += size(item)
        # A page that is just full has a key to go on from, whether or not anything follows.
        more = more or len(items) == limit
        admitted = self._charge_read((table, pk, ""), read)
        self._end(rest)
        if not admitted:
            raise _declined(THROTTLED)
        answer: dict[str, Any] = {"Items": items, "Count": len(items)}
        if more and items:
            answer["LastEvaluatedKey"] = {"pk": items[-1]["pk"], "sk": items[-1]["sk"]}
        return answer

    def scan(self, **request: Any) -> dict[str, Any]:
        """All of a table, by its keys; filtered, and charged for all that was looked at."""
        rest = self._begin("scan", self._latency.read)
        table, start, names = (
            request["TableName"],
            request.get("ExclusiveStartKey"),
            request["ExpressionAttributeNames"],
        )
        after = (start["pk"]["S"], start["sk"]["S"]) if start else ("", "")
        found = [
            item for (name, _), part in sorted(self._partitions.items()) if name == table for item in part.values()
        ]
        left = [item for item in found if (item["pk"]["S"], item["sk"]["S"]) > after]
        page = left[: request["Limit"]]
        wanted, values = condition(request["FilterExpression"], names), request["ExpressionAttributeValues"]
        kept = [item for item in page if wanted(item, values)]
        read = sum(map(size, page))
        self._charge_read((table, "", ""), read)
        self._end(rest)
        seen = [{name: item[name] for name in names.values() if name in item} for item in kept]
        last = {"LastEvaluatedKey": {"pk": page[-1]["pk"], "sk": page[-1]["sk"]}} if len(left) > len(page) else {}
        charged = {"ConsumedCapacity": {"CapacityUnits": max(1, math.ceil(read / READ_UNIT))}}
        return {"Items": seen, "Count": len(seen), **charged, **last}

    def _in_range(self, table: str, pk: str, request: Any) -> Iterator[Item]:
        partition = self._partitions.get((table, pk))
        if not partition:
            return
        values = request["ExpressionAttributeValues"]
        low, high, inclusive = _range(
            request["KeyConditionExpression"], request.get("ExpressionAttributeNames", {}), values
        )
        backwards = request.get("ScanIndexForward") is False
        start = request.get("ExclusiveStartKey")
        if start is not None:
            after = start["sk"]["S"]
            low, high, inclusive = (
                (low, after, (inclusive[0], False)) if backwards else (after, high, (False, inclusive[1]))
            )
        for sk in partition.irange(low, high, inclusive=inclusive, reverse=backwards):
            yield partition[sk]

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        rest = self._begin("batch_get_item", self._latency.read)
        found: dict[str, list[Item]] = {}
        unread: dict[str, Any] = {}
        for table, asked in request["RequestItems"].items():
            found[table] = []
            for key in asked["Keys"]:
                place = _place(table, key)
                item = self._get(place)
                if not self._charge_read(place, size(item)):
                    unread.setdefault(table, {"Keys": [], "ConsistentRead": True})["Keys"].append(key)
                elif item is not None:
                    found[table].append(dict(item))
        self._end(rest)
        return {"Responses": found, "UnprocessedKeys": unread}

    def batch_execute_statement(self, **request: Any) -> dict[str, Any]:
        """Up to 25 statements, each with its own condition, each with its own answer."""
        statements = request["Statements"]
        assert 0 < len(statements) <= 25, "DynamoDB takes 25 statements"
        rest = self._begin("batch_execute_statement", self._latency.write)
        answers = [self._execute(one) for one in statements]
        self._end(rest)
        return {"Responses": answers}

    def _execute(self, one: Any) -> dict[str, Any]:
        text = statement(one["Statement"])
        parameters = one["Parameters"]
        changes = dict(zip(text.sets, parameters[: len(text.sets)], strict=True))
        wanted = list(zip(text.terms, parameters[len(text.sets) :], strict=True))
        key = changes if text.verb == "INSERT" else {"pk": wanted[0][1], "sk": wanted[1][1]}
        place = _place(text.table, key)
        old = self._get(place)
        new = None if text.verb == "DELETE" else {**(old or {}), **changes}
        if not self._charge_write(place, max(size(old), size(new))):
            return {"Error": {"Code": "ThrottlingError"}}
        if place in self._in_transaction:
            self.bill.conflicts += 1
            return {"Error": {"Code": "TransactionConflict"}}
        if text.verb == "INSERT" and old is not None:
            self.bill.failed_conditions += 1
            return {"Error": {"Code": "DuplicateItem"}}
        if text.verb == "DELETE" and old is None:
            return {}
        holds = all(compare(old.get(name) if old else None, operator, value) for (name, operator), value in wanted[2:])
        if text.verb != "INSERT" and (old is None or not holds):
            self.bill.failed_conditions += 1
            error: dict[str, Any] = {"Code": "ConditionalCheckFailed"}
            if old is not None and one.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
                error["Item"] = dict(old)
            return {"Error": error}
        self._write(place, old, new)
        return {"Item": dict(old)} if text.returns_old and old is not None else {}

    # -- transactions -------------------------------------------------------------------------------------------
    def transact_write_items(self, **request: Any) -> dict[str, Any]:
        """Twice the units; two that touch an item at the same time cancel one; a repeated token does nothing."""
        token = request.get("ClientRequestToken", "")
        writes = [_transacted(one) for one in request["TransactItems"]]
        rest = self._begin("transact_write_items", tuple(2 * bound for bound in self._latency.write))  # type: ignore[arg-type]
        if token and self._time.now - self._answered.get(token, -math.inf) < 600_000:
            self._end(rest)
            return {}
        places = [_place(details["TableName"], key) for _, details, key in writes]
        reasons = [self._reason(place, *write) for place, write in zip(places, writes, strict=True)]
        if any(reason["Code"] != "None" for reason in reasons):
            self._end(rest)
            raise _cancelled(reasons)
        self._in_transaction.update(places)
        try:
            self._end(rest / 2)
        finally:
            self._in_transaction.difference_update(places)
        for place, (verb, details, _) in zip(places, writes, strict=True):
            self._apply(place, verb, details)
        if token:
            self._answered[token] = self._time.now
        self._end(rest / 2)
        return {}

    def _reason(self, place: Key, verb: str, details: Any, _key: Item) -> dict[str, Any]:
        """Why a write of a transaction cannot be prepared; billed all the same."""
        old = self._get(place)
        if place in self._in_transaction:
            self.bill.conflicts += 1
            return {"Code": "TransactionConflict"}
        if not self._charge_write(place, max(size(old), size(details.get("Item"))), times=2):
            return {"Code": "ThrottlingError"}
        holds = condition(details.get("ConditionExpression"), details.get("ExpressionAttributeNames"))
        if not holds(old, details.get("ExpressionAttributeValues", {})):
            self.bill.failed_conditions += 1
            given = details.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and old is not None
            return {"Code": "ConditionalCheckFailed", **({"Item": dict(old)} if given and old else {})}
        return {"Code": "None"}

    def _apply(self, place: Key, verb: str, details: Any) -> None:
        old = self._get(place)
        if verb == "Put":
            self._write(place, old, details["Item"])
        elif verb == "Delete":
            self._write(place, old, None)
        elif verb == "Update":
            item = dict(old) if old is not None else dict(details["Key"])
            for change in update(details["UpdateExpression"], details.get("ExpressionAttributeNames")):
                change(item, details.get("ExpressionAttributeValues", {}))
            self._write(place, old, item)

    # -- shared -------------------------------------------------------------------------------------------------
    def _begin(self, operation: str, bounds: tuple[float, float]) -> float:
        """Let the way to the table pass; how long the way back takes."""
        self.bill.requests[operation] += 1
        if not self.limits:
            return 0.0
        low, high = bounds
        rng = self._time.random
        if rng.random() < self._latency.tail_chance:
            low, high = self._latency.tail
        millis = rng.uniform(low, high)
        self._time.sleep_ms(0.6 * millis)
        return 0.4 * millis

    def _end(self, rest: float) -> None:
        if self.limits:
            self._time.sleep_ms(rest)

    def _get(self, place: Key) -> Item | None:
        table, pk, sk = place
        partition = self._partitions.get((table, pk))
        return partition.get(sk) if partition else None

    def _write(self, place: Key, old: Item | None, new: Item | None) -> None:
        table, pk, sk = place
        partition = self._partitions.setdefault((table, pk), SortedDict())
        if new is None:
            partition.pop(sk, None)
        else:
            partition[sk] = dict(new)
        for watcher in self._watchers:
            watcher(table, {"pk": {"S": pk}, "sk": {"S": sk}}, old, new)

    def _charge_write(self, place: Key, bytes_: int, *, times: int = 1) -> bool:
        units = times * max(1, math.ceil(bytes_ / WRITE_UNIT))
        if not self._admitted(place, "w", PARTITION_WRITE_UNITS, units):
            return False
        self.bill.write_units += units
        self.bill.writes_by_partition[place[1]][int(self._time.now // 1000)] += units
        return True

    def _charge_read(self, place: Key, bytes_: int) -> bool:
        units = max(1, math.ceil(bytes_ / READ_UNIT))  # strongly consistent
        if not self._admitted(place, "r", PARTITION_READ_UNITS, units):
            return False
        self.bill.read_units += units
        return True

    def _admitted(self, place: Key, kind: str, per_second: int, units: float) -> bool:
        if not self.limits:
            return True
        table, pk, _ = place
        bucket = self._buckets.get((table, pk, kind))
        if bucket is None:
            bucket = self._buckets[table, pk, kind] = Bucket(per_second, per_second, self._time.now)
        if not self.refuse(pk) and bucket.take(units, self._time.now):
            return True
        self.bill.throttled[pk] += 1
        return False


def size(item: Item | None) -> int:
    """An item's size as DynamoDB counts it: names and values, numbers by their digits."""
    if not item:
        return 0
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: Any) -> int:
    ((kind, raw),) = value.items()
    match kind:
        case "S":
            return len(raw.encode())
        case "B":
            return len(raw)
        case "N":
            return len(raw) // 2 + 1
        case "L":
            return 3 + sum(1 + _value_size(one) for one in raw)
        case "M":
            return 3 + sum(1 + len(name.encode()) + _value_size(one) for name, one in raw.items())
        case "SS":
            return sum(len(one.encode()) for one in raw)
        case "BOOL" | "NULL":
            return 1
        case _:
            raise NotImplementedError(f"the model does not know the type {kind!r}")


def _place(table: str, key: Item) -> Key:
    return table, key["pk"]["S"], key["sk"]["S"]


_SK = re.compile(
    r"(?:sk|#\w+) BETWEEN (:\w+) AND (:\w+)|begins_with ?\((?:sk|#\w+), (:\w+)\)|(?:sk|#\w+) (<=|>=|<|>|=) (:\w+)"
)


def _range(text: str, _names: Any, values: Any) -> tuple[str | None, str | None, tuple[bool, bool]]:
    """Which sort keys a key condition means: from, to, and whether each end belongs to it."""
    _, _, rest = text.partition(" AND ")
    if not rest:
        return None, None, (True, True)
    found = _SK.search(rest)
    if found is None:
        raise NotImplementedError(f"the model does not know this key condition: {text!r}")
    low, high, prefix, operator, value = found.groups()
    if low:
        return values[low]["S"], values[high]["S"], (True, True)
    if prefix:
        begin = values[prefix]["S"]
        return begin, begin + "\U0010ffff", (True, True)
    end = values[value]["S"]
    match operator:
        case "=":
            return end, end, (True, True)
        case "<" | "<=":
            return None, end, (True, operator == "<=")
        case _:
            return end, None, (operator == ">=", True)


def _declined(code: str, old: Item | None = None, request: Any = None) -> Declined:
    response: dict[str, Any] = {"Error": {"Code": code, "Message": "simulated"}}
    if old is not None and request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD":
        response["Item"] = dict(old)
    return Declined(response)


def _cancelled(reasons: list[dict[str, Any]]) -> Declined:
    return Declined(
        {"Error": {"Code": "TransactionCanceledException", "Message": "simulated"}, "CancellationReasons": reasons}
    )


def _transacted(one: Any) -> tuple[str, Any, Item]:
    ((verb, details),) = one.items()
    return verb, details, details["Item"] if verb == "Put" else details["Key"]
