"""The types of the definitions as Spark spells them, and messages as documents of their type."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from millrace.definitions.message_type import read_record
from millrace.spark.data.typed_columns import _documents, _shape_at, json_paths, type_ddl

WRITTEN = {
    "record": {
        "id": "string", "n": "int", "f": "float", "ok": "bool", "at": "time", "wait": "duration", "raw": "bytes",
        "kind": {"enum": ["a", "b"]}, "tags": {"list": "string"}, "by": {"map": ["string", "int"]}, "any": "json",
        "inner": {"record": {"deep": "json", "a-b": "int"}},
    }
}  # fmt: skip


def test_every_type_has_a_column_type() -> None:
    kind = read_record(WRITTEN)
    ddl = type_ddl(kind, {"inner.deep": "struct<x: int>"})
    assert ddl == (
        "struct<`id`: string, `n`: bigint, `f`: double, `ok`: boolean, `at`: timestamp, `wait`: string, `raw`: binary, "
        "`kind`: string, `tags`: array<string>, `by`: map<string, bigint>, `any`: string, "
        "`inner`: struct<`deep`: struct<x: int>, `a-b`: bigint>>"
    )
    assert json_paths(kind) == ["any", "inner.deep"]


@pytest.mark.parametrize(
    ("shape", "ddl"),
    [
        ({"type": "struct", "fields": []}, "struct<>"),
        ("string", "string"),
        ({"type": "array", "elementType": "void", "containsNull": True}, "array<string>"),
        ("void", None),
    ],
)
def test_a_shape_that_was_found_is_spelled_again(shape: Any, ddl: str | None) -> None:
    found = StructType.fromJson(
        {"type": "struct", "fields": [{"name": "payload", "type": shape, "nullable": True, "metadata": {}}]}
    )
    assert _shape_at(found, "payload") == ddl
    assert _shape_at(found, "nothing") is None


def test_documents_are_what_the_definitions_see(definitions: bytes) -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "source": ["webhook:GitHub", "bulk", "webhook:GitHub", None],
            "content_type": ["application/json"] * 4,
            "headers": [[("x", "1")], [], [], []],
            "received_at": [datetime(2027, 1, 15, 8, tzinfo=UTC)] * 4,
            "body": [b'{"a": 1}', b'{"payload": 2, "headers": {}}', b"no json", None],
        }
    )
    (found,) = _documents(definitions, "Alerts", [batch])
    webhook, row, *broken = found.column("document").to_pylist()
    assert json.loads(webhook) == {
        "payload": {"a": 1}, "headers": {"x": "1"}, "source_ip": "", "received_at": "2027-01-15T08:00:00.000Z",
    }  # fmt: skip
    assert json.loads(row) == {"payload": 2, "headers": {}}
    assert broken == [None, None]
