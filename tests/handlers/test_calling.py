"""Calling a handler: its context, its kind, its event loop."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from millrace.handlers.calling import call, call_async, is_async, takes_context
from millrace.handlers.context import AsyncContext, Context
from millrace.webhooks.call_context import CallContext


class Object:
    async def __call__(self, given: Any, context: AsyncContext) -> Any:
        return given, context


async def with_context(given: Any, context: AsyncContext) -> Any:
    return given, context


@pytest.mark.parametrize(
    ("handler", "takes", "awaited"),
    [
        (lambda given: given, False, False),
        (lambda given, context: given, True, False),
        (lambda given, *, option=1: given, False, False),
        (with_context, True, True),
        (partial(with_context, 1), False, True),
        (Object(), True, True),
        ([].append, False, False),
    ],
)
def test_a_handler_is_known_by_its_signature(handler: Any, takes: bool, awaited: bool) -> None:
    assert (takes_context(handler), is_async(handler)) == (takes, awaited)


def test_a_function_gets_a_context_and_a_coroutine_function_an_async_one() -> None:
    context = CallContext("c", 1)
    assert call(lambda given, found: (given, found), 1, context) == (1, context)
    given, found = call(with_context, 1, context)
    assert (given, type(found), found.correlation_id) == (1, AsyncContext, "c")
    assert asyncio.run(call_async(Object(), 2, context))[0] == 2


def test_what_it_raises_comes_through() -> None:
    async def fails(_given: Any) -> None:
        raise KeyError("x")

    def raises(_given: Any, _context: Context) -> None:
        raise KeyError("x")

    for handler in (fails, raises):
        with pytest.raises(KeyError):
            call(handler, 1, CallContext("c", 1))
