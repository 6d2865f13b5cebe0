"""One MiniStack for the whole run, whichever folder of tests asks for it first."""

from __future__ import annotations

import os

import pytest

from infra.local.ministack import MiniStack

STACK_URL = "MILLRACE_TEST_MINISTACK"
_running: list[MiniStack] = []


def shared_ministack(config: pytest.Config) -> str:
    """Where it listens. Raises EngineMissing, which says how to make its environment."""
    if given := os.environ.get(STACK_URL):
        return given
    if not _running:
        stack = MiniStack(services=("dynamodb", "s3")).start()
        config.add_cleanup(stack.stop)
        _running.append(stack)
    return _running[0].url
