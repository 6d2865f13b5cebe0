"""Calling a handler: with its context or without, blocking or on an event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from millrace.handlers.context import AsyncContext, Context

#: `(input)` or `(input, context)`; a coroutine function's context is an AsyncContext.
HandlerFunction = Callable[..., Any]


def call(handler: HandlerFunction, given: Any, context: Context) -> Any:
    """Run a handler to its end in this thread; a coroutine function on an event loop of its own."""
    if is_async(handler):
        return asyncio.run(call_async(handler, given, context))
    return handler(*_arguments(handler, given, context))


async def call_async(handler: HandlerFunction, given: Any, context: Context) -> Any:
    """Run a coroutine function on the running event loop."""
    return await handler(*_arguments(handler, given, AsyncContext(context)))


def is_async(handler: HandlerFunction) -> bool:
    """Whether calling it gives something to await; an object counts by its `__call__`."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def _arguments(handler: HandlerFunction, given: Any, context: Context | AsyncContext) -> tuple[Any, ...]:
    return (given, context) if takes_context(handler) else (given,)


def takes_context(handler: HandlerFunction) -> bool:
    """Whether a handler has a second parameter."""
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(parameter.kind in places for parameter in inspect.signature(handler).parameters.values()) > 1
