"""Programs that need an environment of their own (SAM, MiniStack, Java and Node), made from the bundle's locks."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

from millrace.app.bundle import bundle_root, tool_folder


class ToolMissing(Exception):
    """A tool that is neither there nor could be downloaded; says what to do."""


def find_uv() -> str:
    """uv, which installs everything else: the bundle's, this environment's, or the machine's. Raises ToolMissing."""
    places = [str(bundle_root() / ".venv-uv" / "bin"), str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    found = os.environ.get("UV") or shutil.which("uv", path=os.pathsep.join(places))
    if not found:
        raise ToolMissing("uv is not there: pip install uv.")
    return found


def ensure_environment(name: str) -> Path:
    """The environment of a tool, made from `infra/locks/NAME.txt` where it is missing. Raises ToolMissing."""
    lock = bundle_root() / "infra" / "locks" / f"{name}.txt"
    folder = tool_folder(name, lock)
    if (folder / ".installed").exists():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{folder.name}.lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)  # two apps may start at the same time
        if (folder / ".installed").exists():
            return folder
        print(f"Setting up {name} in {folder} (once) ...", file=sys.stderr, flush=True)  # noqa: T201
        uv, python = find_uv(), folder / "bin" / "python"
        try:
            subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True)
            sync = [uv, "pip", "sync", "--quiet", "--require-hashes", "--python", str(python), str(lock)]
            subprocess.run(sync, check=True)
        except subprocess.CalledProcessError as failed:
            raise ToolMissing(f"{name} could not be installed from {lock}: {failed}") from failed
        (folder / ".installed").touch()
    return folder
