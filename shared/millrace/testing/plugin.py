"""The pytest plugin: the fixture `app`. Nothing is imported until a test asks for it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from millrace.testing.kit import AppUnderTest


@pytest.fixture
def app(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AppUnderTest:
    """The app of the test's folder on the engine in memory, with empty queues and a clock of its own."""
    from millrace.app.layout import App
    from millrace.testing.kit import AppUnderTest

    root = App.find(request.path.parent).root
    if str(root) not in sys.path:
        monkeypatch.syspath_prepend(root)
    return AppUnderTest(root)
