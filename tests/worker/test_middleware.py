"""Middleware: its order, and what logs and traces show and must not."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from millrace.worker import Reject, RunContext
from millrace.worker.middleware import Handler, logging_middleware, tracing_middleware
from tests.conftest import Bench
from tests.worker.conftest import drain, put


def test_middleware_wraps_the_handler_the_first_outermost(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    put(queue)
    order: list[str] = []

    def layer(name: str) -> Any:
        def around(context: RunContext, run: Handler) -> Any:
            order.append(f"{name} in")
            result = run(context)
            order.append(f"{name} out")
            return result

        return around

    drain(queue, lambda _context: order.append("work"), middleware=(layer("a"), layer("b")))
    assert order == ["a in", "b in", "work", "b out", "a out"]


def test_middleware_may_answer_in_the_handlers_place(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    put(queue, idempotency_key="k")
    drain(queue, lambda _context: 1 / 0, middleware=(lambda _context, _run: {"cached": True},))
    assert put(queue, idempotency_key="k").result == b'{"cached":true}'


def test_a_failed_run_is_logged_with_its_fields_and_without_its_body(
    memory_bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    queue = memory_bench.queue()
    receipt = put(queue, b'{"card":"4111"}', correlation_id="corr-5")

    def fail(_context: RunContext) -> None:
        raise ValueError("broken for card 4222")

    with caplog.at_level(logging.INFO, logger="millrace.worker"):
        drain(queue, fail, middleware=(logging_middleware,))
    (record,) = [record for record in caplog.records if getattr(record, "action", "") == "run_failed"]
    assert vars(record)["message_id"] == receipt.message_id
    assert (vars(record)["attempt"], vars(record)["correlation_id"], vars(record)["queue"]) == (1, "corr-5", "Jobs")
    assert vars(record)["error_type"] == "ValueError"
    assert "4111" not in str(vars(record))
    assert "4222" not in str(vars(record))


def test_a_control_is_no_warning(memory_bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    queue = memory_bench.queue()
    put(queue)

    def refuse(_context: RunContext) -> None:
        raise Reject("no such card 4333")

    with caplog.at_level(logging.INFO, logger="millrace.worker"):
        drain(queue, refuse, middleware=(logging_middleware,))
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "4333" not in str(vars(caplog.records[0]))


def test_a_run_without_opentelemetry_is_just_run(memory_bench: Bench) -> None:
    """See `tests/handlers/test_tracing.py` for spans."""
    queue = memory_bench.queue()
    put(queue)
    assert drain(queue, lambda _context: None, middleware=(tracing_middleware,)).counts["done"] == 1
