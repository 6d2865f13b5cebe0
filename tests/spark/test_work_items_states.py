"""The folder's rules on Spark and without it: the same files, the same states, the same reasons."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from millrace.items.folder import find_cycles as cycles_without_spark
from millrace.items.folder import read_folder
from millrace.spark.sources import read_items
from millrace.spark.work_items import derive_states, find_cycles, read_fields

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]


def write_folders(root: Path, chance: random.Random, folders: int) -> None:
    """Many small folders whose items know only each other: every kind of mistake and of waiting."""
    for folder in range(folders):
        names = [f"f{folder}-{number}" for number in range(chance.randrange(1, 7))]
        for file in range(len(names) + 1):
            head = {
                "id": chance.choice(names),
                "status": chance.choice(["pending", "pending", "done", "in_progress"]),
                "depends_on": chance.sample([*names, f"f{folder}-nowhere"], chance.randrange(3) % (len(names) + 1)),
            }
            if chance.random() < 0.1:
                head.pop(chance.choice(list(head)))
            lines = "".join(f"{name}: {value}\n" for name, value in head.items())
            place = root / chance.choice(["", "_hidden", "deep/er"]) / f"{folder}-{file}.md"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"---\n{lines}---\ntext\n" if chance.random() < 0.95 else "no front matter")


def test_spark_and_the_command_line_agree_on_every_item(spark: Any, tmp_path: Path) -> None:
    write_folders(tmp_path, random.Random(20), 150)
    here = read_folder(tmp_path)
    states = derive_states(read_fields(read_items(spark, str(tmp_path)))).persist()
    there = {
        row["path"].removeprefix("file:").removeprefix("//"): (row["id"], row["state"], row["reason"])
        for row in states.select("path", "id", "state", "reason").collect()
    }
    expected = {str(item.path): (item.id or None, item.state.value, item.reason or None) for item in here}
    assert len({state for _, state, _ in expected.values()}) == 7, "every state is met"
    assert there == {
        path: (
            id_,
            state,
            reason and reason.replace(str(tmp_path), f"file:{tmp_path}") if state == "duplicate_id" else reason,
        )
        for path, (id_, state, reason) in expected.items()
    }
    assert find_cycles(states) == cycles_without_spark(here) != []
