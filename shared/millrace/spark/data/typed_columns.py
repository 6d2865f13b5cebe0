"""Bodies as columns: each field of a queue's `message_type` with its own type, down to `payload.incident.urgency`.

`json` fields have no declared shape. They are columns too where a shape is given, or inferred from a sample; else they
are text. What the queue's type calls like a column of every message (`headers`, `received_at`, `key` …) is found as
`body_headers` and so on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, NullType, StringType, StructType

from millrace.admission.admit import typed_message
from millrace.definitions import load
from millrace.definitions.message_type import EnumType, ListType, MapType, RecordType, ScalarType, Type
from millrace.model.errors import InvalidMessage
from millrace.model.message import Body, Message, Place

#: How `json` fields become columns: a shape found in a sample of the messages, or none: text.
INFER, TEXT = "infer", "text"
SAMPLE = 1_000
DOCUMENT = "document"
_SCALARS = {
    "string": "string", "int": "bigint", "float": "double", "bool": "boolean", "time": "timestamp",
    "duration": "string", "bytes": "binary", "json": "string",
}  # fmt: skip


def with_typed_body(
    messages: DataFrame, definitions: bytes, queue: str, json_fields: str | Mapping[str, str]
) -> DataFrame:
    """Messages of one queue (with `received_at` as a timestamp) and its type's fields as columns.

    json_fields  `infer`, `text`, or the DDL type of each json field by its path: {"payload": "struct<…>"}
    A queue without a type is left as it is. A body that its type does not fit has nulls.
    """
    message_type = load(definitions).queue(queue).message_type
    if message_type is None:
        return messages
    documents = with_documents(messages, definitions, queue)
    shapes = json_fields if isinstance(json_fields, Mapping) else {}
    if json_fields == INFER:
        shapes = infer_shapes(documents, message_type)
    parsed = F.from_json(DOCUMENT, type_ddl(message_type, shapes))
    own = set(messages.columns)
    fields = [parsed.getField(name).alias(f"body_{name}" if name in own else name) for name in message_type.fields]
    return documents.select(*messages.columns, *fields)


def with_documents(messages: DataFrame, definitions: bytes, queue: str) -> DataFrame:
    """The same messages with the typed message as JSON in `document`."""
    schema = StructType([*messages.schema.fields]).add(DOCUMENT, StringType())
    return messages.mapInArrow(partial(_documents, definitions, queue), schema)


def _documents(definitions: bytes, queue: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    message_type = load(definitions).queue(queue).message_type
    needed = ("source", "content_type", "headers", "received_at", "body")
    for batch in batches:
        rows = zip(*(batch.column(name).to_pylist() for name in needed), strict=True)
        texts = [_document(message_type, *row) for row in rows]
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(texts, pa.string())], names=[*batch.schema.names, DOCUMENT]
        )


def _document(
    message_type: RecordType | None,
    source: str | None,
    content_type: str,
    headers: Any,
    received_at: Any,
    body: bytes | None,
) -> str | None:
    if body is None:
        return None
    message = Message(
        "", "", "", "", Place("", ""), Body(), content_type, round(received_at.timestamp() * 1000), 0, 0,
        headers=dict(headers or ()), source=source or "",
    )  # fmt: skip
    try:
        return json.dumps(typed_message(message_type, message, body), ensure_ascii=False, separators=(",", ":"))
    except (InvalidMessage, ValueError, RecursionError):
        return None


def type_ddl(kind: Type, shapes: Mapping[str, str], path: str = "") -> str:
    """A type of the definitions as Spark spells it."""
    match kind:
        case RecordType():
            inner = ", ".join(
                f"`{name}`: {type_ddl(field.type, shapes, f'{path}.{name}' if path else name)}"
                for name, field in kind.fields.items()
            )
            return f"struct<{inner}>"
        case ListType():
            return f"array<{type_ddl(kind.item, shapes, f'{path}[]')}>"
        case MapType():
            return f"map<string, {type_ddl(kind.value, shapes, f'{path}{{}}')}>"
        case EnumType():
            return "string"
        case ScalarType():
            return shapes.get(path, "string") if kind.name == "json" else _SCALARS[kind.name]


def json_paths(kind: Type, path: str = "") -> list[str]:
    """Where a type holds `json`, as far as a shape can be given for it: fields of records, not items of lists."""
    match kind:
        case RecordType():
            return [
                found
                for name, field in kind.fields.items()
                for found in json_paths(field.type, f"{path}.{name}" if path else name)
            ]
        case ScalarType(name="json"):
            return [path]
    return []


def infer_shapes(documents: DataFrame, message_type: RecordType) -> dict[str, str]:
    """The shape of each json field, by the first thousand messages that are read."""
    paths = json_paths(message_type)
    if not paths:
        return {}
    spark = documents.sparkSession
    sample = [row[DOCUMENT] for row in documents.select(DOCUMENT).limit(SAMPLE).collect() if row[DOCUMENT]]
    if not sample:
        return {}
    found = spark.read.json(spark.sparkContext.parallelize(sample, 1)).schema
    return {path: shape for path in paths if (shape := _shape_at(found, path)) is not None}


def _shape_at(schema: DataType, path: str) -> str | None:
    kind = schema
    for name in path.split("."):
        if not isinstance(kind, StructType) or name not in kind.names:
            return None
        kind = kind[name].dataType
    return None if isinstance(kind, NullType) else _ddl(kind)


def _ddl(kind: DataType) -> str:
    """A type as DDL, with names as senders write them: dots, blanks, hyphens."""
    if isinstance(kind, StructType):
        inner = ", ".join(f"`{field.name.replace('`', '``')}`: {_ddl(field.dataType)}" for field in kind.fields)
        return f"struct<{inner}>"
    if isinstance(kind, ArrayType):
        return f"array<{_ddl(kind.elementType)}>"
    return "string" if isinstance(kind, NullType) else kind.simpleString()
