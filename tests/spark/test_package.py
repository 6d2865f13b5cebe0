"""What Glue and EMR are given: everything that the job imports is in the zip, or the platform's own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from infra.build.bulk_package import ROOT, main
from infra.local.dynamodb import REGION, find_java
from tests.spark.conftest import Desk

#: The versions of the platform: those that this very environment was made of.
LOCK = "spark4.txt" if version("pyspark").startswith("4") else "dev.txt"
#: Runs the job from the package alone: the library of this checkout is not on the path.
BARE = """
import runpy, sys
package, job = sys.argv[1:3]
sys.path[:] = [package, *(path for path in sys.path if "site-packages" in path or "lib/python" in path)]
import millrace
assert millrace.__file__.startswith(package), millrace.__file__
sys.argv[:] = [job, "--help"]
runpy.run_path(job, run_name="__main__")
"""


def test_the_job_starts_from_its_package_alone_and_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        main(tmp_path / name)
    package, again = (tmp_path / name / "millrace-bulk.zip" for name in ("one", "two"))
    assert package.read_bytes() == again.read_bytes()
    (wheel,), (wheel_again,) = (list((tmp_path / name).glob("*.whl")) for name in ("one", "two"))
    assert wheel.read_bytes() == wheel_again.read_bytes()
    command = [sys.executable, "-I", "-c", BARE, str(package), str(tmp_path / "one" / "job.py")]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "--lake" in ran.stdout


@pytest.mark.spark
def test_the_wheel_works_beside_what_a_platform_brings_and_nothing_else(desk: Desk, tmp_path: Path) -> None:
    """A fresh environment with Spark and what comes with it on Glue, and the wheel: the job runs, Glue's way."""
    main(tmp_path / "bulk")
    (wheel,) = (tmp_path / "bulk").glob("*.whl")
    uv = os.environ.get("UV") or str(ROOT / ".venv-uv" / "bin" / "uv")
    venv = tmp_path / "venv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(venv)], check=True)
    python = str(venv / "bin" / "python")
    brought = ["pyspark", "pyarrow", "pandas", "boto3", "setuptools"]
    constraints = ["--constraint", str(ROOT / "infra" / "locks" / LOCK)]
    subprocess.run([uv, "pip", "install", "--quiet", "--no-verify-hashes", "--python", python, *constraints, *brought,
                    str(wheel)], check=True)  # fmt: skip
    source = desk.lines(
        "rows.jsonl", [{"id": f"row-{n}", "amount": n, "kind": "noise" if n == 3 else "x"} for n in range(9)]
    )
    # As Glue hands its arguments over: its own among them, a switch with its value.
    given = {
        "--JOB_NAME": "bulk", "--job-language": "python", "--additional-python-modules": str(wheel), "--TempDir": "s3://t",
        "--queue": "Typed", "--tenant": desk.tenant, "--source": source, "--report": str(tmp_path / "reports"),
        "--run": "wheel", "--queue-table": desk.tables.queue, "--dead-letter-table": desk.tables.dead_letters,
        "--body-bucket": "none", "--region": REGION, "--dynamodb-endpoint": desk.engine_url, "--strict": "false",
        "--definitions": str(desk.definitions),
    }  # fmt: skip
    arguments = [text for pair in given.items() for text in pair]
    environment = {
        "PATH": os.environ["PATH"], "JAVA_HOME": str(Path(find_java()).resolve().parents[1]), "PYSPARK_PYTHON": python,
        "AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "SPARK_LOCAL_IP": "127.0.0.1",
        "HOME": str(tmp_path),
    }  # fmt: skip
    command = [python, "-I", str(tmp_path / "bulk" / "job.py"), *arguments]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3_000:]
    assert "inserted   8" in ran.stdout
    assert "filtered   1" in ran.stdout
    assert len(desk.entries("Typed")) == 8
    where = "import millrace, pyspark_millrace; print(millrace.__file__)"
    said = subprocess.run([python, "-I", "-c", where], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert said.stdout.startswith(str(venv))
