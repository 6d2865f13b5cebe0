"""Every kind of source gives the same columns, with the fields where the user said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millrace.model.errors import InvalidField
from millrace.spark.rows import READ
from millrace.spark.sources import Format, RowSource, read_source

pytestmark = pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")


def test_a_field_that_no_message_has_is_refused_before_anything_is_read() -> None:
    spark: Any = None
    with pytest.raises(InvalidField, match="colour"):
        read_source(spark, RowSource("nowhere", Format.CSV, {"colour": "red"}))


@pytest.mark.parametrize("kind", Format)
def test_only_tables_have_bodies_of_columns_and_only_lines_have_bytes_between(kind: Format) -> None:
    plain, with_body = RowSource("p", kind), RowSource("p", kind, {"body": "text"})
    assert plain.bodies_are_columns is (kind in (Format.CSV, Format.PARQUET))
    assert not with_body.bodies_are_columns
    assert plain.bytes_between_rows == (1 if kind is Format.JSON_LINES else None)


def read(spark: Any, path: Path, kind: Format, **fields: str) -> list[dict[str, Any]]:
    frame = read_source(spark, RowSource(str(path), kind, fields))
    assert tuple(frame.columns) == READ.names
    return sorted((row.asDict() for row in frame.collect()), key=lambda row: bytes(row["raw"]))


@pytest.mark.spark
def test_json_lines_keep_their_bytes_and_paths_point_into_them(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"id":"a","in":{"x":1}}\r\n{"id":"b","in":{"x":[2]}}\n')
    one, two = read(
        spark, tmp_path / "a.jsonl", Format.JSON_LINES, idempotency_key="id", key="in.x", project="concat('p', 1)"
    )
    assert (bytes(one["raw"]), bytes(one["body"])) == (b'{"id":"a","in":{"x":1}}\r', b'{"id":"a","in":{"x":1}}')
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
