"""`make checkov`: checkov on the template that SAM's translator makes, held to the exceptions in infra/checkov.yaml.

Fails on a finding that has no exception, and on an exception that is no longer found.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from infra.translation import translated

EXCEPTIONS = Path(__file__).with_name("checkov.yaml")
CHECKOV = Path(sys.executable).with_name("checkov")

Finding = tuple[str, str]  #: (check, logical id)


def main() -> int:
    report = _checked(translated())
    names = {found["check_id"]: found["check_name"] for found in report["results"]["failed_checks"]}
    found = {(each["check_id"], each["resource"].rpartition(".")[2]) for each in report["results"]["failed_checks"]}
    excepted = _excepted()
    for check, resource in sorted(found - excepted):
        print(f"{resource}: {names[check]} ({check}). Mend template.yaml, or say why not in {EXCEPTIONS.name}.")
    for check, resource in sorted(excepted - found):
        print(f"{resource}: {check} is excepted in {EXCEPTIONS.name} but no longer found. Take it out.")
    if found != excepted:
        return 1
    passed = report["summary"]["passed"]
    print(f"checkov: {passed} checks passed; {len(found)} findings left as they are, each with its reason.")
    return 0


def _checked(template: dict[str, Any]) -> dict[str, Any]:
    """checkov's report; nothing is downloaded or sent."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "template.json")
        file.write_text(json.dumps(template, indent=1), "utf-8")
        command = [
            str(CHECKOV),
            "--file",
            str(file),
            "--framework",
            "cloudformation",
            "--skip-download",
            "--output",
            "json",
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        report: dict[str, Any] = json.loads(ran.stdout)
    except ValueError:
        sys.exit(f"checkov did not report:\n{ran.stderr}")
    if report["summary"]["parsing_errors"] or not report["summary"]["passed"]:
        sys.exit("checkov could not read the template.")
    return report


def _excepted() -> set[Finding]:
    written = yaml.safe_load(EXCEPTIONS.read_text("utf-8"))
    silent = [check for check, exception in written.items() if not exception.get("because")]
    if silent:
        sys.exit(f"{EXCEPTIONS.name} gives no reason for {', '.join(silent)}.")
    return {(check, resource) for check, exception in written.items() for resource in exception["in"]}


if __name__ == "__main__":
    sys.exit(main())
