"""Every kind of source gives the same columns, with the fields where the user said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millrace.model.errors import InvalidField
from millrace.spark.rows import READ
from millrace.spark.sources import Format, RowSource, count_starts, frame_rows, read_source, read_starts

pytestmark = pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")


def test_a_field_that_no_message_has_is_refused_before_anything_is_read() -> None:
    spark: Any = None
    with pytest.raises(InvalidField, match="colour"):
        read_source(spark, RowSource("nowhere", Format.CSV, {"colour": "red"}))


@pytest.mark.parametrize("kind", Format)
def test_only_tables_have_bodies_of_columns_and_only_json_lines_are_lines(kind: Format) -> None:
    plain, with_body = RowSource("p", kind), RowSource("p", kind, {"body": "text"})
    assert plain.bodies_are_columns is (kind not in (Format.JSON_LINES, Format.MARKDOWN))
    assert not with_body.bodies_are_columns
    assert plain.lines is (kind is Format.JSON_LINES)


def read(spark: Any, path: Path, kind: Format, **fields: str) -> list[dict[str, Any]]:
    frame = read_source(spark, RowSource(str(path), kind, fields))
    assert tuple(frame.columns) == READ.names
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: bytes(row["raw"] or row["body"]))


@pytest.mark.spark
def test_json_lines_keep_their_bytes_and_paths_point_into_them(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"id":"a","in":{"x":1}}\r\n{"id":"b","in":{"x":[2]}}\n')
    one, two = read(
        spark, tmp_path / "a.jsonl", Format.JSON_LINES, idempotency_key="id", key="in.x", project="concat('p', 1)"
    )
    assert (bytes(one["raw"]), bytes(one["body"])) == (b'{"id":"a","in":{"x":1}}\r', b'{"id":"a","in":{"x":1}}')
    assert (two["raw"], bytes(two["body"])) == (None, b'{"id":"b","in":{"x":[2]}}'), "what is the same is there once"
    assert (one["idempotency_key"], one["key"], one["project"]) == ("a", "1", "p1")
    assert (two["key"], two["priority"]) == ("[2]", None)


@pytest.mark.spark
def test_csv_rows_are_documents_of_their_columns_and_a_broken_one_is_a_problem(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,text\n1,"two\nlines, ""quoted"""\n2\n')
    rows = read(spark, tmp_path / "a.csv", Format.CSV, key="id")
    whole = [row for row in rows if row["problem"] is None]
    (broken,) = [row for row in rows if row["problem"]]
    assert [json.loads(bytes(row["body"])) for row in whole] == [{"id": "1", "text": 'two\nlines, "quoted"'}]
    assert whole[0]["key"] == "1"
    assert "columns of the header" in broken["problem"]
    assert bytes(broken["raw"]) == b"2"


@pytest.mark.spark
def test_parquet_rows_keep_nulls_and_know_their_number(spark: Any, tmp_path: Path) -> None:
    rows = [("a", None, b"\x00\xff"), ("b", 2, b"x")]
    frame = spark.createDataFrame(rows, "id string, n int, data binary").coalesce(1)
    frame.write.parquet(str(tmp_path / "p"))
    one, two = read(spark, tmp_path / "p", Format.PARQUET, idempotency_key="id")
    assert [row["offset"] for row in (one, two)] == [0, 1]
    assert json.loads(bytes(one["body"]))["n"] is None
    (first, _) = read(spark, tmp_path / "p", Format.PARQUET, body="data")
    assert bytes(first["body"]) == b"\x00\xff", "bytes of a column that was named stay as they are"


@pytest.mark.spark
def test_markdown_files_are_documents_or_say_what_is_wrong(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.md").write_text("---\nid: one\n---\nText.\n")
    (tmp_path / "b.md").write_text("---\nid: [broken\n---\n")
    (tmp_path / "c.txt").write_text("no markdown")
    rows = read(spark, tmp_path, Format.MARKDOWN, idempotency_key="id")
    assert {Path(row["path"]).name: (row["idempotency_key"], bool(row["problem"])) for row in rows} == {
        "a.md": ("one", False),
        "b.md": (None, True),
    }


SIZES = pa.schema([("path", pa.string()), ("block", pa.int64()), ("offset", pa.int64()), ("size", pa.int64())])


def test_starts_are_counted_over_batches_and_anew_for_each_part() -> None:
    rows = [("a", 0, 0, 3), ("a", 0, 1, 1), ("a", 0, 2, 7), ("a", 64, 3, 2), ("b", 0, 4, 5), ("b", 0, 5, 1)]
    batches = [
        pa.RecordBatch.from_pylist([dict(zip(SIZES.names, row, strict=True)) for row in part], SIZES)
        for part in (rows[:2], rows[2:])
    ]
    found = [start for batch in count_starts(batches) for start in batch.column("start").to_pylist()]
    assert found == [0, 3, 4, 0, 0, 5]


@pytest.mark.spark
def test_every_line_of_a_file_in_many_parts_is_found_by_its_first_byte(spark: Any, tmp_path: Path) -> None:
    data = b"".join(b'{"n":%d,"x":"%s"}%s\n' % (n, b"y" * (n % 37), b"\r" * (n % 2)) for n in range(300))
    (tmp_path / "a.jsonl").write_bytes(data + b"\n\nlast")
    source = RowSource(str(tmp_path), Format.JSON_LINES)
    spark.conf.set("spark.sql.files.maxPartitionBytes", "1000")
    try:
        starts = read_starts(spark, source)
        assert starts is not None
        places = {(row["block"], row["offset"]): row["start"] for row in starts.collect()}
        rows = read_source(spark, source).collect()
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    assert len({row["block"] for row in rows}) > 3
    whole = data + b"\n\nlast"
    for row in rows:
        start = places[row["block"], row["offset"]]
        raw = bytes(row["raw"] or row["body"])
        assert whole[start:].startswith(raw)
        assert whole[start + len(raw) :][:1] in (b"\n", b"")
        assert start == 0 or whole[start - 1 : start] == b"\n"


@pytest.mark.spark
def test_any_frame_gives_rows_by_names_and_expressions(spark: Any) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    frame = spark.createDataFrame([("a", 2, "x y")], "id string, n int, `odd name` string")
    fields: dict[str, Any] = {
        "idempotency_key": "id",
        "key": "odd name",
        "priority": F.col("n") * 10,
        "project": "concat(id, '-p')",
    }
    (row,) = frame_rows(frame, fields).collect()
    assert json.loads(bytes(row["body"])) == {"id": "a", "n": 2, "odd name": "x y"}
    assert (row["idempotency_key"], row["key"], row["priority"], row["project"]) == ("a", "x y", "20", "a-p")
    (named,) = frame_rows(frame, {"body": F.col("n")}).collect()
    assert bytes(named["body"]) == b"2"


@pytest.mark.spark
def test_a_table_and_a_query_are_sources(spark: Any, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE source_of_rows (id string, n int) USING parquet LOCATION '{tmp_path}/t'")
    try:
        spark.sql("INSERT INTO source_of_rows VALUES ('a', 1), ('b', 2)")
        of_table = read(spark, Path("source_of_rows"), Format.TABLE, idempotency_key="id")
        query = RowSource("SELECT id FROM source_of_rows WHERE n > 1", Format.SQL, {"idempotency_key": "id"})
        (of_query,) = read_source(spark, query).collect()
        qualified = read(spark, Path("spark_catalog.default.source_of_rows"), Format.TABLE)
    finally:
        spark.sql("DROP TABLE source_of_rows")
    assert [row["idempotency_key"] for row in of_table] == ["a", "b"]
    assert of_query["idempotency_key"] == "b"
    assert len(qualified) == 2
