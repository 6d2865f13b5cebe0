"""A stranger's machine: the wheel, a shell without anything of this checkout, tools downloaded once for all runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from millrace.app.tools import find_uv

ROOT = Path(__file__).parents[2]


def environment(folder: Path) -> dict[str, str]:
    """What the shell holds at first."""
    ours = ("AWS_", "MILLRACE_", "PYTEST_", "PYTHON", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "XDG_CACHE_HOME": str(ROOT / ".cache"), "UV": find_uv(), "TMPDIR": str(folder)}


def build_wheel(source: Path, folder: Path) -> Path:
    """The wheel of a checkout."""
    command = [find_uv(), "build", "--quiet", "--wheel", "--no-build-isolation", "--python", sys.executable]
    subprocess.run([*command, "-o", str(folder), str(source)], check=True)
    return next(folder.glob("*.whl"))
