"""Exports found and read without Spark: the same ones as Spark's own file systems find."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.model.errors import InvalidField
from millrace.spark.data.export_files import ExportFile, find_export_files, read_text, task_count
from tests.spark.data.world import World


def test_exports_are_found_wherever_the_path_points(world: World) -> None:
    world.send()
    full = world.export_full()
    world.forward(10)
    world.send()
    changes = world.export_changes()
    both = find_export_files([full, changes])
    assert [export.full for export in both] == [True, True, False, False]
    assert find_export_files([str(Path(full).parent)]) == both
    assert find_export_files([f"{full}/AWSDynamoDB", f"{changes}/"]) == both
    (one,) = find_export_files([f"{full}/AWSDynamoDB/{both[0].name}"])
    assert one == both[0]
    assert task_count(both) == 1


def test_a_folder_without_an_export_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidField, match="no manifest-summary"):
        find_export_files([str(tmp_path)])


def test_lines_are_read_packed_or_not_and_end_at_newlines_only(tmp_path: Path) -> None:
    import gzip

    text = '{"a":"x\u2028y\r"}\n{"b":1}\n'
    plain, packed = tmp_path / "a.json", tmp_path / "b.json.gz"
    plain.write_bytes(text.encode())
    packed.write_bytes(gzip.compress(text.encode()))
    for file in (plain, packed):
        lines = list(read_text(ExportFile(f"file://{file}", 0)))
        assert lines == ['{"a":"x\u2028y\r"}\n', '{"b":1}\n']
