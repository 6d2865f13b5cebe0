"""Single files by Spark's own file systems, asked from the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from millrace.aws.s3_client import s3_client
from millrace.spark import files
from millrace.spark.files import _link_once, move_once, read_bytes, write_text

on_spark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")]


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_a_name_in_s3_is_given_once(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    none: Any = None
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        s3_client().create_bucket(Bucket="lake")
        for data, given in ((b"first", True), (b"second", False)):
            monkeypatch.setattr(files, "read_bytes", lambda _spark, _path, data=data: data)
            assert files.move_once(none, "staged", f"{scheme}://lake/_millrace/journal-1.json") is given
        held = s3_client().get_object(Bucket="lake", Key="_millrace/journal-1.json")["Body"]
        assert held.read() == b"first"
        held.close()


def test_a_name_on_a_disk_is_given_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("first")
    second.write_text("second")
    assert _link_once(first, tmp_path / "own" / "journal")
    assert not _link_once(second, tmp_path / "own" / "journal")
    assert (tmp_path / "own" / "journal").read_text() == "first"


class TestBySpark:
    pytestmark = on_spark

    def test_a_file_is_written_in_place_of_what_was_there_and_read_whole(self, spark: Any, tmp_path: Path) -> None:
        path = f"file://{tmp_path}/report/summary.json"
        write_text(spark, path, "a longer text that was there before")
        write_text(spark, path, '{"é": 1}')
        assert read_bytes(spark, path) == '{"é": 1}'.encode()
        assert (tmp_path / "report" / "summary.json").read_text() == '{"é": 1}'
        assert move_once(spark, path, f"{path}.moved")
        write_text(spark, f"{path}.other", "other")
        assert not move_once(spark, f"{path}.other", f"file:{tmp_path}/report/summary.json.moved")
