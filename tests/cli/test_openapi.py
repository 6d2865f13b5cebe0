"""`millrace openapi`: the same document on standard output and in a file."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from millrace.cli.main import main


def test_the_document_is_printed_or_written(tmp_path: Path) -> None:
    printed = CliRunner().invoke(main, ["openapi"]).output
    assert json.loads(printed)["openapi"].startswith("3.1")
    path = tmp_path / "openapi.json"
    assert CliRunner().invoke(main, ["openapi", "-o", str(path)]).exit_code == 0
    assert path.read_text() == printed
