"""The ingress on both stores."""

from __future__ import annotations

import pytest

from tests.conftest import Bench
from tests.webhooks.gate import Gate, open_gate


@pytest.fixture
def gate(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(open_gate(bench.runtime, bench.tenant), monkeypatch)


@pytest.fixture
def memory_gate(memory_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The same on the store in memory alone: for what does not reach the store."""
    return Gate(open_gate(memory_bench.runtime, memory_bench.tenant), monkeypatch)
