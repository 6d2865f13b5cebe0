"""`spark.read.format("millrace")`: messages, attempts, results, dead letters and audit events, by Spark 4's own API.

Filters narrow what is read (Spark applies them again): `message_id` to a query for each message, `tenant` and `queue`
of dead letters and `tenant` of audit events to a query instead of a scan, `received_at` to fewer bodies. Spark 4.1 and
later hands them over where `spark.sql.python.filterPushdown.enabled` is set, which the option `push_filters` needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from millrace.spark.data.read_plan import ReadPlan


class QueueReader(DataSourceReader):  # type: ignore[misc]
    """One read of a deployment."""

    def __init__(self, plan: ReadPlan) -> None:
        self.plan = plan

    def partitions(self) -> Sequence[InputPartition]:
        self.plan, parts = self.plan.planned()
        return [InputPartition((self.plan, part)) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        if partition.value is None:  # what Spark makes of no partitions at all
            return iter(())
        plan, part = partition.value
        return plan.rows(part)  # type: ignore[no-any-return]


class FilteringReader(QueueReader):
    """The same, for a session that hands filters over."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 (Spark's name)
        for filter_ in filters:
            self.plan = narrowed(self.plan, filter_)
        return filters


def narrowed(plan: ReadPlan, filter_: Any) -> ReadPlan:
    """The plan that reads no more than this filter lets through, as far as that spares something."""
    column, kind, value = getattr(filter_, "attribute", None), type(filter_).__name__, getattr(filter_, "value", None)
    match column, kind:
        case ("message_id",), "EqualTo" | "In":
            asked = {str(value)} if kind == "EqualTo" else set(map(str, value or ()))
            kept = asked if plan.ids is None else asked & set(plan.ids)
            return replace(plan, ids=tuple(sorted(kept)))
        case ("tenant" | "queue",), "EqualTo":
            return _of_queue(plan, column[0], value)
        case ("received_at",), _ if plan.what != "audit_events":
            deriving = plan.reading.deriving
            only = replace(deriving, received=_span(kind, value, *deriving.received))
            return replace(plan, reading=replace(plan.reading, deriving=only))
        case ("ended_at",), _ if plan.what == "dead_letters":
            return replace(plan, failed=_span(kind, value, *plan.failed))
    return plan


def _of_queue(plan: ReadPlan, name: str, value: Any) -> ReadPlan:
    """Narrowed to one tenant or queue, unless the options name one already."""
    deriving = plan.reading.deriving
    if not isinstance(value, str) or getattr(deriving, name) is not None:
        return plan
    only = replace(deriving, tenant=value) if name == "tenant" else replace(deriving, queue=value)
    return replace(plan, reading=replace(plan.reading, deriving=only))


def _span(kind: str, value: Any, since: int, before: int) -> tuple[int, int]:
    """A stretch of milliseconds cut down by a filter; a little wider than it says, since Spark looks again."""
    if not isinstance(value, datetime):
        return since, before
    at = round((value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000)
    if kind in ("EqualTo", "GreaterThan", "GreaterThanOrEqual"):
        since = max(since, at - 1)
    if kind in ("EqualTo", "LessThan", "LessThanOrEqual"):
        before = min(before, at + 1)
    return since, before
