"""Facts: what was seen of one item of a table, and when.

A full export (or a scan) says of an item "it stood so at this time", an incremental one "it was written so, or
deleted, at this time". Of two facts about an item the later one holds, so facts may come twice, in any order, and from
exports that overlap. Lines are DynamoDB's: `{"Item": …}` of a full export, `{"Metadata": …, "Keys": …, "NewImage": …,
"OldImage": …}` of an incremental one (AWS: "DynamoDB table export output format").
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

from millrace.spark.rows import Columns
from millrace.stores.dynamodb.items import LOCATION, MESSAGE, RESULT, Item

MICROS = 1_000


class FactKind(StrEnum):
    """What kind of item a fact is about."""

    MESSAGE = "message"
    LOCATION = "location"
    RESULT = "result"
    ENTRY = "entry"
    DEAD_LETTER = "dead_letter"
    AUDIT_EVENT = "audit_event"


_UNDER_AN_ID = {MESSAGE: FactKind.MESSAGE, LOCATION: FactKind.LOCATION, RESULT: FactKind.RESULT}
#: Facts as rows; `id` is the message's, or the audit event's.
FACTS = Columns(id="string", kind="string", key="string", at="long", gone="boolean", image="string")


class NoExportLine(ValueError):
    """A line of an export cannot be read: the export is damaged, or is none. Nothing is skipped over."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One item as it was seen."""

    id: str
    kind: FactKind
    key: str  #: of the item: its partition and sort key
    at: int  #: microseconds since 1970
    gone: bool  #: it was deleted then; `item` is how it stood before
    item: Item

    @property
    def nonce(self) -> str:
        """The life of the message that it belongs to; empty for what belongs to none."""
        return str(self.item.get("nonce", {}).get("S", ""))

    def values(self) -> tuple[Any, ...]:
        """In the order of FACTS."""
        return self.id, self.kind.value, self.key, self.at, self.gone, written_item(self.item)


def fact_of_row(id_: str, kind: str, key: str, at: int, gone: bool, image: str) -> Fact:  # noqa: FBT001 (a row's column)
    return Fact(id_, FactKind(kind), key, at, gone, read_item(json.loads(image)))


def fact_of_item(item: Item, at: int, *, gone: bool = False) -> Fact | None:
    """The fact of an item; None for one that is no message's and no audit event."""
    pk, sk = item["pk"]["S"], item["sk"]["S"]
    kind = _kind(pk, sk, item)
    if kind is None:
        return None
    id_ = pk.removeprefix("M#") if kind in _UNDER_AN_ID.values() else item["id"]["S"]
    return Fact(id_, kind, f"{pk}\n{sk}", at, gone, item)


def _kind(pk: str, sk: str, item: Mapping[str, Any]) -> FactKind | None:
    if pk.startswith("M#"):
        return _UNDER_AN_ID.get(sk)
    if pk.startswith("AUDIT#"):
        return FactKind.AUDIT_EVENT
    if "reason" in item and "failed" in item and "id" in item:
        return FactKind.DEAD_LETTER
    return FactKind.ENTRY if "until" in item and "nonce" in item and "id" in item else None


def fact_of_line(line: str, exported_at: int) -> Fact | None:
    """The fact that a line of an export spells; `exported_at` is the time of a full export.

    None for an item that is no message's, and for one that was deleted in a view without old images. Raises
    NoExportLine.
    """
    try:
        found = json.loads(line)
        if "Item" in found:
            return fact_of_item(read_item(found["Item"]), exported_at)
        at = int(found["Metadata"]["WriteTimestampMicros"]["N"])
        if found.get("NewImage"):
            return fact_of_item(read_item(found["NewImage"]), at)
        old = found.get("OldImage")
        return fact_of_item(read_item({**found["Keys"], **old}), at, gone=True) if old else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NoExportLine(f"no line of a DynamoDB export ({type(error).__name__})") from error


def written_item(item: Mapping[str, Any]) -> str:
    """An item in DynamoDB's JSON, binary data in base64, as exports write it."""
    return json.dumps(item, default=_encoded, separators=(",", ":"), ensure_ascii=False)


def read_item(written: Mapping[str, Any]) -> Item:
    """An item of an export as the store's readers take it: binary data as bytes."""
    return {name: _decoded(value) for name, value in written.items()}


def _encoded(value: Any) -> str:
    return b64encode(value).decode("ascii")


def _decoded(value: Any) -> Any:
    ((kind, held),) = value.items()
    if kind == "B" and isinstance(held, str):
        return {"B": b64decode(held, validate=True)}
    return value


def read_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Lines of exports (`path`, `at`, `value`) as facts, on an executor. Raises NoExportLine with the file's name."""
    for batch in batches:
        facts = []
        for path, at, line in zip(*(batch.column(name).to_pylist() for name in ("path", "at", "value")), strict=True):
            if not line.strip():
                continue
            try:
                fact = fact_of_line(line, at)
            except NoExportLine as error:
                raise NoExportLine(f"{path}: {error}") from error
            if fact is not None:
                facts.append(fact.values())
        yield pack_facts(facts)


def pack_facts(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    return FACTS.batch(list(zip(*rows, strict=True)) or [[]] * len(FACTS.names))
