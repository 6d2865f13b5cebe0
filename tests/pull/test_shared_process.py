"""A process that serves many requests at once: its functions share what they keep."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import functions.consumer.handler as consumer
from tests.pull.stack import Stack


def test_the_first_requests_make_one_service_between_them(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two would each have a line of waiting consumers, and a message would wake only one of them."""
    together = Barrier(16)

    def first_request() -> object:
        together.wait()
        return consumer.api()

    consumer._made.cache_clear()
    with ThreadPoolExecutor(16) as pool:
        made = [future.result() for future in [pool.submit(first_request) for _ in range(16)]]
    assert len({id(api) for api in made}) == 1
