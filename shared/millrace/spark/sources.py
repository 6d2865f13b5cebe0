"""Data sets as rows for the queue: every source gives the columns of `rows.READ`, and no other.

A field is taken from a column, a path into it (`incident.id`), or any Spark SQL expression (`concat(account, '-', n)`,
`'billing'`). In JSON lines and markdown a path points into the document; expressions find it, whole, as `value`.

A row of a file knows its path, Spark's part of it (`block`) and its number there; where a line begins in bytes is
counted afterwards, and only when somebody must find one (`read_starts`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users write it)
from pyspark.sql.types import ArrayType, BinaryType, MapType, StructType, TimestampType

from millrace.items.front_matter import Malformed, read_markdown
from millrace.model.errors import InvalidField
from millrace.spark.rows import MESSAGE_FIELDS, READ, Columns


class Format(StrEnum):
    """What a source is made of."""

    JSON_LINES = "jsonl"
    PARQUET = "parquet"
    CSV = "csv"
    MARKDOWN = "markdown"
    TABLE = "table"  #: whatever `spark.table` reads: the Glue Data Catalog, Iceberg, Delta
    SQL = "sql"  #: the rows of a query


#: Formats of files; the others come by a name or a query of their own.
FILES = (Format.JSON_LINES, Format.PARQUET, Format.CSV, Format.MARKDOWN)


_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_CORRUPT = "_malformed_row"
MARKDOWN = Columns(path="string", raw="binary", value="string", problem="string")
#: Small files are packed into few tasks: opening one costs about as much as reading this.
_OPEN_COST = str(64 * 1024)


@dataclass(frozen=True, slots=True)
class RowSource:
    """A data set, and where its rows say what."""

    path: str  #: of files; the name of a table; the text of a query
    format: Format
    fields: Mapping[str, str] = field(default_factory=dict)  #: message field → column, path or expression

    @property
    def lines(self) -> bool:
        return self.format is Format.JSON_LINES

    @property
    def bodies_are_columns(self) -> bool:
        return self.format not in (Format.JSON_LINES, Format.MARKDOWN) and "body" not in self.fields


def read_source(spark: SparkSession, source: RowSource) -> DataFrame:
    """The source's rows, unread until somebody asks for them."""
    demand_fields(source.fields)
    return _READERS[source.format](spark, source)


def demand_fields(names: Iterable[str]) -> None:
    """Raises InvalidField for a name that no field of a message has."""
    unknown = set(names) - set(MESSAGE_FIELDS)
    if unknown:
        raise InvalidField("fields", f"{sorted(unknown)} are no fields of a message", ", ".join(MESSAGE_FIELDS))


def frame_rows(frame: DataFrame, fields: Mapping[str, str | Column]) -> DataFrame:
    """The rows of any DataFrame; a row's body is all of its columns as JSON unless a field says otherwise."""
    demand_fields(fields)
    columns = {name: _text(frame, name, _field(frame, given)) for name, given in fields.items()}
    if "body" not in columns:
        columns["body"] = _as_json([F.col(f"`{name}`") for name in frame.columns]).cast("binary")
    return _arranged(frame, columns | {"offset": F.monotonically_increasing_id()})


def _field(frame: DataFrame, given: str | Column) -> Column:
    if not isinstance(given, str):
        return given
    return F.col(f"`{given}`") if given in frame.columns else F.expr(given)


def _table(spark: SparkSession, source: RowSource) -> DataFrame:
    return frame_rows(spark.table(source.path), source.fields)


def _sql(spark: SparkSession, source: RowSource) -> DataFrame:
    return frame_rows(spark.sql(source.path), source.fields)


def _json_lines(spark: SparkSession, source: RowSource) -> DataFrame:
    trimmed = F.expr("trim(TRAILING '\r' FROM value)")
    found = _lines(spark, source).select(
        *("path", "block", "offset"),
        F.when(trimmed != F.col("value"), F.col("value").cast("binary")).alias("raw"),
        trimmed.alias("value"),
    )
    return _documents(found, source)


def _lines(spark: SparkSession, source: RowSource) -> DataFrame:
    # Cut at newlines only, so that bytes can be counted: Spark would cut at carriage returns too.
    return spark.read.text(source.path, lineSep="\n").select(
        F.col("_metadata.file_path").alias("path"),
        F.col("_metadata.file_block_start").alias("block"),
        F.monotonically_increasing_id().alias("offset"),
        "value",
    )


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
    rows, names = _csv_rows(spark, source)
    whole = _as_json([F.col(f"`{name}`") for name in names])
    found = rows.select(
        "*",
        F.col("_metadata.file_path").alias("_path"),
        F.monotonically_increasing_id().alias("_offset"),
        F.coalesce(F.col(_CORRUPT), _unless_body(whole, source)).cast("binary").alias("_raw"),
        F.when(F.col(_CORRUPT).isNotNull(), "invalid_message: not the columns of the header").alias("_problem"),
        whole.alias("_whole"),
    )
    return _columns(found, source)


def _csv_rows(spark: SparkSession, source: RowSource) -> tuple[DataFrame, list[str]]:
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
    return rows, names


def _parquet(spark: SparkSession, source: RowSource) -> DataFrame:
    rows = spark.read.parquet(source.path)
    whole = _as_json([F.col(f"`{name}`") for name in rows.columns])
    found = rows.select(
        "*",
        F.col("_metadata.file_path").alias("_path"),
        F.col("_metadata.row_index").alias("_offset"),
        _unless_body(whole, source).cast("binary").alias("_raw"),
        whole.alias("_whole"),
    )
    return _columns(found, source)


def _unless_body(whole: Column, source: RowSource) -> Column:
    """A row as it was read, where its body does not say it already."""
    return whole if "body" in source.fields else F.lit(None)


_READERS = {
    Format.JSON_LINES: _json_lines,
    Format.MARKDOWN: _markdown,
    Format.CSV: _csv,
    Format.PARQUET: _parquet,
    Format.TABLE: _table,
    Format.SQL: _sql,
}
STARTS = Columns(path="string", block="long", offset="long", start="long")


def read_starts(spark: SparkSession, source: RowSource) -> DataFrame | None:
    """Where each row begins: the byte of its file (JSON lines), its number in it (CSV).

    Reads the source once more. None where a row's offset says it as it is.
    """
    if source.format is Format.JSON_LINES:
        sizes = _lines(spark, source).withColumn("size", F.length(F.col("value").cast("binary")) + F.lit(1))
    elif source.format is Format.CSV:
        sizes = _csv_rows(spark, source)[0].select(
            F.col("_metadata.file_path").alias("path"),
            F.lit(0).alias("block"),
            F.monotonically_increasing_id().alias("offset"),
            F.lit(1).alias("size"),
        )
    else:
        return None
    kinds = (F.col(name).cast("long") for name in ("block", "offset", "size"))
    sizes = sizes.select("path", *kinds)
    within = sizes.mapInArrow(count_starts, STARTS.ddl)
    # Each line belongs to one part of its file, so a part begins where the lines of those before it end.
    before = Window.partitionBy("path").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    parts = sizes.groupBy("path", "block").agg(F.sum("size").alias("bytes"))
    begins = parts.select("path", "block", F.coalesce(F.sum("bytes").over(before), F.lit(0)).alias("begins"))
    found = within.join(F.broadcast(begins), ["path", "block"])
    return found.select("path", "block", "offset", (F.col("start") + F.col("begins")).alias("start"))


def count_starts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Where each row begins in its part of the file. The rows must come in the order of the file."""
    part, reached = ("", -1), 0
    for batch in batches:
        starts: list[int] = []
        paths, blocks, sizes = (batch.column(name).to_pylist() for name in ("path", "block", "size"))
        for path, block, size in zip(paths, blocks, sizes, strict=True):
            if (path, block) != part:
                part, reached = (path, block), 0
            starts.append(reached)
            reached += size
        yield STARTS.batch([batch.column("path"), batch.column("block"), batch.column("offset"), starts])


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
