"""Data sets as rows for the queue: every source gives the columns of `rows.READ`, and no other.

A field is taken from a column, a path into it (`incident.id`), or any Spark SQL expression (`concat(account, '-', n)`,
`'billing'`). In JSON lines and markdown a path points into the document; expressions find it, whole, as `value`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users write it)
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, TimestampType

from millrace.model.errors import InvalidField
from millrace.spark.front_matter import Malformed, read_markdown
from millrace.spark.rows import MESSAGE_FIELDS, READ, Columns


class Format(StrEnum):
    """What a source is made of."""

    JSON_LINES = "jsonl"
    PARQUET = "parquet"
    CSV = "csv"
    MARKDOWN = "markdown"


_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_CORRUPT = "_malformed_row"
MARKDOWN = Columns(path="string", raw="binary", value="string", problem="string")
#: Small files are packed into few tasks: opening one costs about as much as reading this.
_OPEN_COST = str(64 * 1024)


@dataclass(frozen=True, slots=True)
class RowSource:
    """A data set, and where its rows say what."""

    path: str
    format: Format
    fields: Mapping[str, str] = field(default_factory=dict)  #: message field → column, path or expression

    @property
    def bytes_between_rows(self) -> int | None:
        return 1 if self.format is Format.JSON_LINES else None

    @property
    def bodies_are_columns(self) -> bool:
        return self.format in (Format.CSV, Format.PARQUET) and "body" not in self.fields


def read_source(spark: SparkSession, source: RowSource) -> DataFrame:
    """The source's rows, unread until somebody asks for them."""
    unknown = set(source.fields) - set(MESSAGE_FIELDS)
    if unknown:
        raise InvalidField("fields", f"{sorted(unknown)} are no fields of a message", ", ".join(MESSAGE_FIELDS))
    return _READERS[source.format](spark, source)


def _json_lines(spark: SparkSession, source: RowSource) -> DataFrame:
    # Cut at newlines only, so that bytes can be counted: Spark would cut at carriage returns too.
    lines = spark.read.text(source.path, lineSep="\n")
    found = lines.select(
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("block"),
        F.col("value").cast("binary").alias("raw"),
        F.expr("trim(TRAILING '\r' FROM value)").alias("value"),
    )
    return _documents(found, source)


def _markdown(spark: SparkSession, source: RowSource) -> DataFrame:
    return _documents(read_items(spark, source.path), source)


def read_items(spark: SparkSession, path: str) -> DataFrame:
    """Markdown files: `path`, `raw`, and the document as JSON in `value`, or what is wrong with it in `problem`."""
    spark.conf.set("spark.sql.files.openCostInBytes", _OPEN_COST)
    files = spark.read.text(path, wholetext=True, pathGlobFilter="*.md", recursiveFileLookup=True)
    whole = files.select(F.col("_metadata.file_path").alias("path"), F.col("value").cast("binary").alias("raw"))
    return whole.mapInArrow(_parse_markdown, MARKDOWN.ddl)


def _parse_markdown(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        values: list[str | None] = []
        problems: list[str | None] = []
        for raw in batch.column("raw").to_pylist():
            try:
                values.append(json.dumps(read_markdown(raw), ensure_ascii=False, separators=(",", ":")))
                problems.append(None)
            except Malformed as error:
                values.append(None)
                problems.append(f"invalid_message: {error}")
        yield MARKDOWN.batch([batch.column("path"), batch.column("raw"), values, problems])


def _csv(spark: SparkSession, source: RowSource) -> DataFrame:
    names = spark.read.csv(source.path, header=True).columns
    schema = ", ".join(f"`{name}` string" for name in (*names, _CORRUPT))
    # One task for each file: only who reads from its beginning knows which newlines are within quotes.
    rows = spark.read.csv(
        source.path,
        schema=schema,
        header=True,
        multiLine=True,
        escape='"',
        enforceSchema=False,
        mode="PERMISSIVE",
        columnNameOfCorruptRecord=_CORRUPT,
    )
    whole = _as_json([F.col(f"`{name}`") for name in names])
    found = rows.select(
        "*",
        F.col("_metadata.file_path").alias("_path"),
        F.coalesce(F.col(_CORRUPT), whole).cast("binary").alias("_raw"),
        F.when(F.col(_CORRUPT).isNotNull(), "invalid_message: not the columns of the header").alias("_problem"),
        whole.alias("_whole"),
    )
    return _columns(found, source)


def _parquet(spark: SparkSession, source: RowSource) -> DataFrame:
    rows = spark.read.parquet(source.path)
    whole = _as_json([F.col(f"`{name}`") for name in rows.columns])
    found = rows.select(
        "*",
        F.col("_metadata.file_path").alias("_path"),
        F.col("_metadata.row_index").alias("_offset"),
        whole.cast("binary").alias("_raw"),
        whole.alias("_whole"),
    )
    return _columns(found, source)


_READERS = {
    Format.JSON_LINES: _json_lines,
    Format.MARKDOWN: _markdown,
    Format.CSV: _csv,
    Format.PARQUET: _parquet,
}


def _as_json(columns: list[Column]) -> Column:
    return F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})


def _documents(found: DataFrame, source: RowSource) -> DataFrame:
    """Fields of JSON documents in the column `value`."""

    def of(text: str) -> Column:
        return F.get_json_object("value", f"$.{text}") if _PATH.fullmatch(text) and text != "value" else F.expr(text)

    fields = {name: _text(found, name, of(text)) for name, text in source.fields.items()}
    fields.setdefault("body", F.col("value").cast("binary"))
    return _arranged(found, {name: F.col(name) for name in found.columns if name != "value"} | fields)


def _columns(found: DataFrame, source: RowSource) -> DataFrame:
    """Fields of a table's columns."""
    fields = {name: _text(found, name, F.expr(text)) for name, text in source.fields.items()}
    fields.setdefault("body", F.col("_whole").cast("binary"))
    own = {name: F.col(f"_{name}") for name in ("path", "offset", "raw", "problem") if f"_{name}" in found.columns}
    return _arranged(found, own | fields)


def _arranged(found: DataFrame, columns: Mapping[str, Column]) -> DataFrame:
    every = READ.kinds.items()
    return found.select(*(columns.get(name, F.lit(None)).cast(kind).alias(name) for name, kind in every))


def _text(frame: DataFrame, name: str, column: Column) -> Column:
    """A field's value as the shaping reads it: text, except for the body's bytes."""
    kind = frame.select(column.alias("field")).schema["field"].dataType
    if isinstance(kind, StructType | ArrayType | MapType):
        column = F.to_json(column)
    elif isinstance(kind, TimestampType):
        column = F.unix_millis(column)
    elif isinstance(kind, BinaryType) and name == "body":
        return column
    return column.cast("string").cast("binary") if name == "body" else column.cast("string")
