"""The fixture `app` is there wherever Millrace is installed, for the app that a test file lies in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.app.apps import make

TEST = """def test_an_order_is_shipped(app):
    answer = app.send_webhook("Sales", {"number": 7}, {"x-github-event": "sale"}, delivery_id="d1")
    assert answer.status == 202
    app.drain()
    assert app.result(answer.message_id) == {"number": 7}
"""


def test_pytest_alone_finds_the_app_of_its_test(tmp_path: Path) -> None:
    app = make(tmp_path, {"tests/test_orders.py": TEST})
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(app.root), "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=app.root, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stdout
