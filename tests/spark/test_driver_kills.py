"""The driver's process is killed, with its JVM and its Python workers, and the job run again: against an oracle."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from infra.build.bulk_package import ROOT
from infra.local.dynamodb import REGION, find_java
from millrace.model.clock import system_clock
from millrace.spark.data.lake import read_lake
from millrace.spark.data.lake_files import lake_folder
from tests.faults.proxy import FaultyEngine
from tests.spark.data.world import World

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:distutils", "ignore::ResourceWarning", "ignore::DeprecationWarning"),
]
HOUR = 3_600_000


class Driver:
    """The job in a process of its own, which dies with all that it started."""

    def __init__(self, world: World, folder: Path, *options: str, engine: str | None = None) -> None:
        (folder / "definitions.json").write_bytes(world.definitions)
        given = ["--queue", "Jobs", "--tenant", "acme", "--definitions", str(folder / "definitions.json")]
        given += ["--report", str(folder / "reports"), "--queue-table", world.names.queue, "--body-bucket", "none"]
        given += ["--dead-letter-table", world.names.dead_letters, "--region", REGION]
        given += ["--dynamodb-endpoint", engine or world.engine_url]
        environment = os.environ | {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'shared'}", "JAVA_HOME": str(Path(find_java()).resolve().parents[1]),
            "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_SUBMIT_ARGS": "--master local[2,4] --conf spark.ui.enabled=false "
            "--conf spark.sql.shuffle.partitions=2 pyspark-shell",
        }  # fmt: skip
        command = [sys.executable, str(ROOT / "functions" / "bulk_enqueue" / "job.py"), *given, *options]
        self.process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)

    def end(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=600)
        return self.process.returncode, said


def replayed(world: World, run: str) -> Counter[str]:
    """How often each message was replayed by a run, by what is in the table."""
    found: Counter[str] = Counter()
    for (_, pk, sk), item in world._items().items():
        if pk.startswith("M#") and sk == "M" and item.get("run", {}).get("S") == run:
            found[item["origin"]["S"]] += 1
    return found


def killed_at_batch(last: int, world: World, folder: Path, *options: str) -> tuple[int, str]:
    """A job whose driver dies with its n-th batch of writes."""
    drivers: list[Driver] = []
    started = threading.Event()

    def plan(number: int, _: Any) -> Any:
        if number < last:
            return "works"
        started.wait()
        drivers[0].kill()
        return "cut"  # it was applied, and nobody heard of it

    with FaultyEngine(world.engine_url, plan) as engine:
        drivers.append(Driver(world, folder, *options, engine=engine.url))
        started.set()
        return drivers[0].end()


def test_a_time_machine_whose_driver_is_killed_twice_replays_each_message_once(world: World, tmp_path: Path) -> None:
    world.clock.now = system_clock() - HOUR
    expected = Counter({world.send().id: 1 for _ in range(70)})
    while world.take(10):
        world.finish()
    options = ("--action", "replay", "--of", "done", "--run", "machine", "--tasks", "2", "--threads", "1")
    for last in (2, 3):
        code, said = killed_at_batch(last, world, tmp_path, *options)
        assert code == -signal.SIGKILL, said[-2_000:]
        assert not (tmp_path / "reports" / "machine" / "summary.json").exists()
        found = replayed(world, "machine")
        assert sum(found.values()) < 70
        assert set(found.values()) <= {1}
    code, said = Driver(world, tmp_path, *options).end()
    assert code == 0, said[-2_000:]
    assert replayed(world, "machine") == expected
    counts = json.loads((tmp_path / "reports" / "machine" / "summary.json").read_text())["counts"]
    assert {name: count for name, count in counts.items() if count} == {"inserted": 70}


def test_a_lake_whose_driver_is_killed_in_its_merge_is_the_same_afterwards(
    spark: Any, world: World, tmp_path: Path
) -> None:
    world.clock.now = system_clock() - HOUR
    for number in range(20):
        world.send()
        if number % 2:
            world.take()
            world.finish()
    lake = tmp_path / "lake"
    options = ("--action", "lake", "--lake", str(lake), "--run", "merge")
    driver = Driver(world, tmp_path, *options)
    staged = lake / "_millrace" / "staged" / "merge" / "messages"
    tick = threading.Event()
    while not staged.exists() and driver.process.poll() is None:
        tick.wait(0.01)
    driver.kill()
    code, said = driver.end()
    assert code == -signal.SIGKILL, said[-2_000:]
    assert not list(lake.glob("messages/*/*/*.parquet")), "nothing was put into place"
    code, said = Driver(world, tmp_path, *options).end()
    assert code == 0, said[-2_000:]
    rows = read_lake(lake_folder(spark, str(lake))).select("message_id", "status", "body").collect()
    assert {row["message_id"]: row["status"] for row in rows} == world.statuses()
    assert {row["message_id"]: bytes(row["body"]) for row in rows} == world.bodies()
    assert len(rows) == 20
    assert not list((lake / "_millrace").glob("staged/*"))
