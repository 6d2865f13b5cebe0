"""The first day, as a stranger types it: the wheel in an empty folder, and every command of the page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from millrace.app.tools import find_uv
from tests.tutorial.runner import Reader
from tests.tutorial.strangers import ROOT, build_wheel, environment

pytestmark = pytest.mark.app
PAGE = ROOT / "infra" / "TUTORIAL.md"


def test_the_first_day_goes_as_the_page_says(tmp_path: Path) -> None:
    wheel, pip = build_wheel(ROOT, tmp_path / "wheel"), f"{find_uv()} pip install --quiet"
    here = {
        "pip install --upgrade millrace": f"{pip} --reinstall-package millrace {wheel}",
        "pip install 'millrace[spark]'": f"{pip} 'millrace[spark] @ file://{wheel}'",
        "pip install millrace": f"{pip} {wheel}",
        "pip install 'python-slugify": f"{pip} 'python-slugify",
        "millrace dev": "millrace dev --port 0 --dynamodb-port 0 --s3-port 0",
        "python3 -m venv": f"{sys.executable} -m venv",
    }
    reader = Reader(tmp_path, environment(tmp_path), here)
    try:
        reader.read(PAGE.read_text("utf-8"))
    finally:
        reader.leave()
