"""What Glue and EMR are given: everything that the job imports is in the zip, or the platform's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from infra.build.bulk_package import main

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
    command = [sys.executable, "-I", "-c", BARE, str(package), str(tmp_path / "one" / "job.py")]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "--lake" in ran.stdout
