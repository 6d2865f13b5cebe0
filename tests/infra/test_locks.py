"""Every lock has a source and is written by `make lock`; no file but those is a lock."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def commands() -> list[list[str]]:
    """What `make lock` would run, without its set-up."""
    ran = subprocess.run(["make", "-n", "lock"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [shlex.split(line) for line in ran.stdout.splitlines() if " pip compile " in line]


def test_make_lock_writes_every_lock_from_a_source_that_exists() -> None:
    written = {command[command.index("-o") + 1] for command in commands()}
    locks = {str(path.relative_to(ROOT)) for path in (ROOT / "infra" / "locks").glob("*.txt")}
    assert written == locks | {"requirements.txt"}
    sources = {word for command in commands() for word in command if word.endswith((".in", ".toml"))}
    assert all((ROOT / source).is_file() for source in sources), sources


def test_a_lock_pins_with_hashes_and_names_no_registry() -> None:
    for command in commands():
        text = (ROOT / command[command.index("-o") + 1]).read_text("utf-8")
        pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert pins
        assert all("==" in pin and pin.endswith("\\") for pin in pins), command
        assert "--index" not in text
        assert "://" not in text


@pytest.mark.parametrize("folder", [".", "tests/console", "tests/generated_clients"])
def test_a_lock_of_npm_pins_with_hashes_and_names_no_registry(folder: str) -> None:
    locked = json.loads((ROOT / folder / "package-lock.json").read_text("utf-8"))["packages"]
    brought = [package for name, package in locked.items() if name]
    assert brought
    assert all(package["integrity"].startswith("sha512-") for package in brought)
    assert not any("resolved" in package for package in brought)
