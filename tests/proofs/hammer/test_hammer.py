"""The hammer, small enough for every run: `python -m tests.proofs.hammer.run` is the full one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


def _hammer(endpoint: str, tenant: str, *options: str) -> dict[str, Any]:
    """In a process of its own: it forks, which a process with threads must not."""
    command = [sys.executable, "-m", "tests.proofs.hammer.run", "--json", "--endpoint", endpoint, "--tenant", tenant]
    ran = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert ran.returncode in (0, 1), ran.stderr
    report: dict[str, Any] = json.loads(ran.stdout)
    return report


# Even seeds keep results, odd ones do not: who ended a message must be told either way.
@pytest.mark.parametrize(("ordering", "messages", "seed"), [("unordered", 300, 1), ("per_key", 150, 2)])
def test_every_message_ends_once_however_its_workers_die(
    engine_url: str, tenant: str, ordering: str, messages: int, seed: int
) -> None:
    report = _hammer(
        engine_url, tenant, "--ordering", ordering, "--messages", str(messages), "--seed", str(seed),
        "--processes", "8" if ordering == "unordered" else "4", "--kills", "4", "--stops", "1",
    )  # fmt: skip

    verdict = report["verdict"]
    assert verdict["findings"] == []
    assert verdict["accepted"] == messages
    assert verdict["dead"] == messages // 100
    assert verdict["done"] == messages - verdict["dead"]
    assert report["kills"] == 4
    assert report["self_kills"] > 0


def test_a_worker_stopped_past_its_lease_gets_nothing_through(engine_url: str, tenant: str) -> None:
    report = _hammer(
        engine_url, tenant, "--messages", "60", "--processes", "2", "--kills", "0", "--stops", "1", "--seed", "3"
    )

    assert report["taken_over"] == 1
    assert report["verdict"]["findings"] == []
