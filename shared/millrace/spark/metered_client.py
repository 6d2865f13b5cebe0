"""A DynamoDB client whose batches keep a pace and tell what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from millrace.spark.adaptive_throttle import AdaptiveThrottle
from millrace.stores.dynamodb.client import EncodedStatement
from millrace.stores.dynamodb.retrying_client import THROTTLED

UNIT_BYTES = 1024


class MeteredClient:
    """Any client of the store, with the writes of an enqueue paced. Everything else goes through untouched."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.throttle = AdaptiveThrottle(None)  #: of the task that this process runs at the moment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def batch_execute_statement(
        self,
        *,
        Statements: Sequence[dict[str, Any] | EncodedStatement],  # noqa: N803 (boto3's name)
    ) -> dict[str, Any]:
        units = sum(map(units_of, Statements))
        return self._paced("batch_execute_statement", units, len(Statements), Statements=Statements)

    def put_item(self, **request: Any) -> dict[str, Any]:
        return self._paced("put_item", _units(_size({"M": request["Item"]})), 1, **request)

    def delete_item(self, **request: Any) -> dict[str, Any]:
        return self._paced("delete_item", 1, 1, **request)

    def _paced(self, operation: str, expected: int, writes: int, **request: Any) -> dict[str, Any]:
        """Wait for the throttle, send, and report what came back: what was charged and what was throttled."""
        throttle = self.throttle
        throttle.take(expected)
        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**request, ReturnConsumedCapacity="TOTAL")
        except Exception as error:
            # What either client raises for an answer carries it; silence carries none.
            if _code(getattr(error, "response", {})) in THROTTLED:
                throttle.throttled(writes)
                throttle.correct(-expected)
            raise
        charged = answer.get("ConsumedCapacity") or []
        if charged:
            tables = charged if isinstance(charged, list) else [charged]
            throttle.correct(sum(table.get("CapacityUnits", 0.0) for table in tables) - expected)
        failed = [part for part in answer.get("Responses", ()) if "Error" in part]
        if throttled := sum(_code(part) in THROTTLED for part in failed):
            throttle.throttled(throttled)
        return answer


def units_of(statement: Mapping[str, Any] | EncodedStatement) -> int:
    """Write units of one statement: a unit for each KB of what it inserts; what it changes or deletes is an entry."""
    if isinstance(statement, EncodedStatement):
        return statement.units
    text, values = statement["Statement"], statement["Parameters"]
    if not text.startswith("INSERT"):
        return 1
    size = len(text) - text.index("{") - 7 * len(values)  # `'name': ?, `: seven characters around each
    for value in values:  # as `_size` does, but this runs for each of some forty values of a row
        held = value.get("S")
        if held is not None:
            size += len(held) if held.isascii() else len(held.encode())
        else:
            size += _size(value)
    return _units(size)


def _units(size: int) -> int:
    return ceil(size / UNIT_BYTES)


def _size(value: Mapping[str, Any]) -> int:
    """As DynamoDB counts: the bytes of a text or of binary data, two digits of a number in one."""
    ((kind, held),) = value.items()
    if kind == "N":
        return (len(held) + 1) // 2 + 1
    if kind == "S":
        return len(held) if held.isascii() else len(held.encode())
    if kind == "B":
        return len(held)
    if kind == "M":
        return 3 + sum(len(name) + 1 + _size(inner) for name, inner in held.items())
    return 1


def _code(response: Mapping[str, Any]) -> str:
    code: str = response.get("Error", {}).get("Code", "")
    return code
