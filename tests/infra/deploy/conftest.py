"""Deploying takes minutes, so these tests run when asked for: `make deploy-test`, or `pytest -m deploy`."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    wanted = "deploy" in str(config.getoption("-m"))
    return True if collection_path.name.startswith("test_") and not wanted else None
