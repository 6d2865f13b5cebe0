"""Builds what Glue, EMR and spark-submit take for the bulk job: `make glue-package`.

    dist/bulk/job.py               the script
    dist/bulk/millrace-bulk.zip    the library, the compiled definitions, and the packages that a cluster lacks
    dist/bulk/millrace_bulk-….whl  the same to be installed: `--additional-python-modules` of Glue, `pip install`

Spark, pyarrow, pandas and boto3 are the cluster's own. Everything in the zip is plain Python, since Python imports no
compiled module from a zip: a queue whose expressions need the CEL engine needs the wheel, which names it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from base64 import urlsafe_b64encode
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "dist" / "bulk"
#: Plain Python that neither Glue nor EMR is sure to have; versions are those of the lock.
PACKAGES = ("pyyaml",)
#: What the wheel asks for beside what Glue and EMR bring.
NEEDS = ("common-expression-language>=0.10", "PyYAML>=6", "matplotlib>=3.9; extra == 'report'")
BULK = "functions/bulk_enqueue"
LOCK = ROOT / "infra" / "locks" / "dev.txt"
#: Parts of the library that no job imports.
LEFT_OUT = {"cli", "client", "language"}
#: The same input gives the same bytes: a package that did not change need not be uploaded again.
STAMP = (2020, 1, 1, 0, 0, 0)


def main(target: Path = TARGET) -> int:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    shutil.copy(ROOT / "functions" / "bulk_enqueue" / "job.py", target / "job.py")
    own = own_files()
    with tempfile.TemporaryDirectory() as name, zipfile.ZipFile(target / "millrace-bulk.zip", "w") as package:
        folder = Path(name)
        install(folder)
        for path in python_files(folder):
            add(package, str(path.relative_to(folder)), path.read_bytes())
        for place, data in own.items():
            add(package, place, data)
    write_wheel(target, own)
    for path in sorted(target.iterdir()):
        print(f"{path.name}: {path.stat().st_size / 1000:,.0f} kB")
    return 0


def own_files() -> dict[str, bytes]:
    """What is ours in either package: the library, the job, the name that Spark 4 finds the format by."""
    found = {}
    for root, folder in ((ROOT / "shared", "millrace"), (ROOT / "shared", "pyspark_millrace"), (ROOT, BULK)):
        for path in python_files(root / folder):
            found[str(path.relative_to(root))] = path.read_bytes()
    found["functions/__init__.py"] = b""
    found["millrace/definitions.json"] = (ROOT / "infra" / "definitions.json").read_bytes()
    return found


def write_wheel(target: Path, own: dict[str, bytes]) -> Path:
    """A wheel of these files that asks for nothing which a platform brings."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    info = f"millrace_bulk-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {need}\n" for need in NEEDS)
    metadata = f"Metadata-Version: 2.1\nName: millrace-bulk\nVersion: {version}\nRequires-Python: >=3.11\n{needs}"
    held = own | {
        f"{info}/METADATA": f"{metadata}Provides-Extra: report\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: millrace\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    records = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in held.items())
    path = target / f"millrace_bulk-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in held.items():
            add(wheel, name, data)
        add(wheel, f"{info}/RECORD", f"{records}{info}/RECORD,,\n".encode())
    return path


def _digest(data: bytes) -> str:
    return urlsafe_b64encode(sha256(data).digest()).rstrip(b"=").decode()


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
