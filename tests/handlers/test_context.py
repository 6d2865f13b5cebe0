"""The context of coroutine functions: the same facts, calls that do not block the event loop."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from millrace.handlers.context import AsyncContext, Context
from millrace.webhooks.call_context import CallContext


def test_both_contexts_have_the_same_names() -> None:
    """A name that only one of them has would make two models out of one."""
    public = {name for name in dir(Context) if not name.startswith("_")} | set(Context.__annotations__)
    awaited = {name for name in dir(AsyncContext) if not name.startswith("_")} | {"state"}
    assert public - {"body", "json"} == awaited - {"read_body"}


def test_calls_do_not_run_on_the_event_loops_thread() -> None:
    threads: list[int] = []

    class Slow(CallContext):
        def extend(self, seconds: float) -> None:
            threads.append(threading.get_ident())

    async def story() -> None:
        context = AsyncContext(Slow("c", 1))
        await context.extend(5)
        await context.state.write({"a": 1})
        assert await context.state.read() == {"a": 1}
        assert await context.read_body() == b""

    asyncio.run(story())
    assert threads
    assert threads[0] != threading.get_ident()


def test_the_facts_of_the_two_are_the_same() -> None:
    context = CallContext("c", {"n": 1}, clock=lambda: 1_000)
    other = AsyncContext(context)
    for name in ("attempt", "cancelled", "correlation_id", "deadline", "fields", "input", "message_id", "version"):
        assert getattr(other, name) == getattr(context, name), name
    assert other.remaining_ms() == context.remaining_ms() == 29_000
    assert inspect.iscoroutinefunction(other.extend)


def test_a_run_logger_puts_its_fields_beside_those_of_the_line(caplog: pytest.LogCaptureFixture) -> None:
    context = CallContext("corr-7", None)
    given: Mapping[str, Any] = {"action": "x"}
    with caplog.at_level(logging.INFO, "millrace.webhooks"):
        context.logger.info("said", extra=given)
    assert (vars(caplog.records[0])["correlation_id"], vars(caplog.records[0])["action"]) == ("corr-7", "x")
