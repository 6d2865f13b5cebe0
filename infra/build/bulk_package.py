"""Builds what Glue, EMR and spark-submit take for the bulk job: `make glue-package`.

    dist/bulk/job.py               the script
    dist/bulk/millrace-bulk.zip    the library, the compiled definitions, and the packages that a cluster lacks

Spark, pyarrow, pandas and boto3 are the cluster's own. Everything in the zip is plain Python, since Python imports no
compiled module from a zip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "dist" / "bulk"
#: Plain Python that neither Glue nor EMR is sure to have; versions are those of the lock.
PACKAGES = ("pyyaml",)
LOCK = ROOT / "infra" / "locks" / "dev.txt"
#: Parts of the library that no job imports.
LEFT_OUT = {"cli", "client", "language"}
#: The same input gives the same bytes: a package that did not change need not be uploaded again.
STAMP = (2020, 1, 1, 0, 0, 0)


def main(target: Path = TARGET) -> int:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    shutil.copy(ROOT / "functions" / "bulk_enqueue" / "job.py", target / "job.py")
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(target / "millrace-bulk.zip", "w") as package:
        folder = Path(name)
        install(folder)
        for path in python_files(folder):
            add(package, str(path.relative_to(folder)), path.read_bytes())
        for path in python_files(ROOT / "shared" / "millrace"):
            add(package, str(path.relative_to(ROOT / "shared")), path.read_bytes())
        for path in python_files(ROOT / "functions" / "bulk_enqueue"):
            add(package, str(path.relative_to(ROOT)), path.read_bytes())
        add(package, "functions/__init__.py", b"")
        add(package, "millrace/definitions.json", (ROOT / "infra" / "definitions.json").read_bytes())
    for path in sorted(target.iterdir()):
        print(f"{path.name}: {path.stat().st_size / 1000:,.0f} kB")
    return 0


def install(folder: Path) -> None:
    wanted = folder / "wanted.txt"
    locked = LOCK.read_text().split("\n")
    keep, lines = False, []
    for line in locked:
        if not line.startswith((" ", "#")):
            keep = line.split("==")[0] in PACKAGES
        if keep:
            lines.append(line)
    wanted.write_text("\n".join(lines) + "\n")
    uv = os.environ.get("UV") or shutil.which("uv") or str(ROOT / ".venv-uv" / "bin" / "uv")
    command = [
        uv,
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--require-hashes",
        "--target",
        str(folder),
        "-r",
        str(wanted),
    ]
    subprocess.run(command, check=True)
    wanted.unlink()


def python_files(folder: Path) -> list[Path]:
    found = [
        path
        for path in folder.rglob("*.py")
        if not LEFT_OUT & set(path.relative_to(folder).parts) and "__pycache__" not in path.parts
    ]
    return sorted(found)


def add(package: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, STAMP)
    entry.compress_type = zipfile.ZIP_DEFLATED
    package.writestr(entry, data)


if __name__ == "__main__":
    sys.exit(main())
