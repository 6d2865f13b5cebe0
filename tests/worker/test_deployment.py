"""A drainer as the environment describes it; what a queue does not use is not made."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.definitions import TargetKind
from millrace.worker.deployment import LazyDelivery, drainer_from
from millrace.worker.middleware import logging_middleware, tracing_middleware
from tests.conftest import Bench

ENVIRONMENT = {
    "QUEUE_TABLE": "q",
    "DEAD_LETTER_TABLE": "d",
    "BODY_BUCKET": "b",
    "DEFINITIONS": "infra/definitions.json",
}


def test_a_drainer_from_the_environment(memory_bench: Bench) -> None:
    given = {**ENVIRONMENT, "WORKER_CONCURRENCY": "3", "COMMANDS": "tests.worker.slow_bundle, "}
    drainer = drainer_from(given, runtime=memory_bench.runtime)
    assert drainer.settings.concurrency == 3
    assert drainer.works_on("WebhookIngress")
    assert drainer.middleware == (logging_middleware, tracing_middleware)
    assert drainer.invoke_worker is None
    assert set(drainer.deliveries) == set(TargetKind)


def test_with_its_own_name_a_worker_can_invoke_others(memory_bench: Bench) -> None:
    drainer = drainer_from({**ENVIRONMENT, "WORKER_FUNCTION": "worker"}, runtime=memory_bench.runtime)
    assert drainer.invoke_worker is not None


def test_a_lazy_delivery_is_made_once_and_only_when_needed() -> None:
    made: list[int] = []

    def make() -> Any:
        made.append(1)
        return lambda _context, request: request

    delivery = LazyDelivery(make)
    assert not made
    assert [delivery(None, n) for n in (1, 2)] == [1, 2]  # type: ignore[arg-type]
    assert made == [1]


def test_a_module_of_commands_that_is_missing_is_an_error_at_the_start(memory_bench: Bench) -> None:
    with pytest.raises(ModuleNotFoundError):
        drainer_from({**ENVIRONMENT, "COMMANDS": "no.such.module"}, runtime=memory_bench.runtime)
