"""Fixtures of the targets' tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worker.targets.receiver import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.close()
