"""Everything that asks the API for what it must not give, in one run: who may do what, hostile requests, and requests
made up from its own OpenAPI document with names that exist. `make attack` prints what was answered.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ("tests/proofs/access", "tests/proofs/hostile", "tests/pull/test_contract.py")
#: Names the file that answers are counted in; nothing is counted without it.
TALLY = "MILLRACE_TALLY"


def count(kind: str, what: str, statuses: Iterable[int]) -> None:
    """Note what a request was answered, for the report of a whole run."""
    if TALLY in os.environ:
        with Path(os.environ[TALLY]).open("a") as tally:
            tally.write(json.dumps([kind, what, list(statuses)]) + "\n")


def report(lines: Iterable[str]) -> list[str]:
    """A line for each kind: how many things were asked how often, and what they were answered."""
    asked: dict[str, set[str]] = {}
    answered: dict[str, Counter[int]] = {}
    for kind, what, statuses in map(json.loads, lines):
        asked.setdefault(kind, set()).add(what)
        answered.setdefault(kind, Counter()).update(statuses)
    return [
        f"{kind}: {len(asked[kind])} routes, {found.total():,} answers: "
        + ", ".join(f"{number:,} x {status}" for status, number in sorted(found.items()))
        + f"; 5xx: {sum(number for status, number in found.items() if status >= 500)}"
        for kind, found in sorted(answered.items())
    ]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        tally = Path(folder) / "tally"
        tally.touch()
        environment = {**os.environ, TALLY: str(tally)}
        command = [sys.executable, "-m", "pytest", *TESTS, "-q", "-n", "0", *sys.argv[1:]]
        ran = subprocess.run(command, cwd=ROOT, env=environment, check=False)
        for line in report(tally.read_text().splitlines()):
            print(line)
    return ran.returncode


if __name__ == "__main__":
    raise SystemExit(main())
