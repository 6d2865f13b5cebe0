"""Single files by Spark's own file systems, asked from the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millrace.spark.files import bytes_to_next_line, read_bytes, write_text

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")]


def test_a_file_is_written_in_place_of_what_was_there_and_read_whole(spark: Any, tmp_path: Path) -> None:
    path = f"file://{tmp_path}/report/summary.json"
    write_text(spark, path, "a longer text that was there before")
    write_text(spark, path, '{"é": 1}')
    assert read_bytes(spark, path) == '{"é": 1}'.encode()
    assert (tmp_path / "report" / "summary.json").read_text() == '{"é": 1}'


def test_what_a_reader_that_begins_within_a_line_passes_over(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "lines").write_bytes("eins\r\nzwö\ndrei".encode())
    begins = {0: 6, 4: 2, 5: 1, 6: 5, 11: 4, 15: 0}
    assert {start: bytes_to_next_line(spark, str(tmp_path / "lines"), start) for start in begins} == begins
