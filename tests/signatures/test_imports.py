"""What importing the package costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_import_costs_the_standard_library_only() -> None:
    code = (
        "import sys, millrace.signatures, millrace.signatures.signing\n"
        "heavy = {'boto3', 'botocore', 'aws_lambda_powertools', 'cryptography', 'jwt', 'pydantic', 'urllib3'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    shared = Path(__file__).parents[2] / "shared"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=shared, check=True)
    assert done.stdout.strip() == "[]"
