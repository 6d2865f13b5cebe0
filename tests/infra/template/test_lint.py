"""cfn-lint finds nothing: neither errors nor warnings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from infra.local.template import PATH


def test_template_is_clean() -> None:
    program = Path(sys.executable).with_name("cfn-lint")
    found = subprocess.run(
        [str(program), str(PATH)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (0, "")
