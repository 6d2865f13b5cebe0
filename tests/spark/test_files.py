"""Single files by Spark's own file systems, asked from the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from millrace.spark.files import read_bytes, write_text

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning")]


def test_a_file_is_written_in_place_of_what_was_there_and_read_whole(spark: Any, tmp_path: Path) -> None:
    path = f"file://{tmp_path}/report/summary.json"
    write_text(spark, path, "a longer text that was there before")
    write_text(spark, path, '{"é": 1}')
    assert read_bytes(spark, path) == '{"é": 1}'.encode()
    assert (tmp_path / "report" / "summary.json").read_text() == '{"é": 1}'
