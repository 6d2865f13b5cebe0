"""Middleware: callables around the handler, the first of the list outermost; and those for logs and traces.

def timed(context, run):
    begun = monotonic()
    try:
        return run(context)
    finally:
        observe(monotonic() - begun)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from millrace.handlers.controls import Control
from millrace.handlers.tracing import run_span
from millrace.worker.context import RunContext, log

#: Does the work of one message: returns a result (bytes, or what JSON can spell, or None) or raises.
Handler = Callable[[RunContext], Any]
Middleware = Callable[[RunContext, Handler], Any]


def wrap(handler: Handler, middleware: Sequence[Middleware]) -> Handler:
    """The handler with its middleware around it."""
    for layer in reversed(middleware):
        handler = partial(_call, layer, handler)
    return handler


def _call(layer: Middleware, inner: Handler, context: RunContext) -> Any:
    return layer(context, inner)


def logging_middleware(context: RunContext, run: Handler) -> Any:
    """A line for every run that did not succeed; one for every run at debug level. Never a body, never a result.

    What was raised is named by its type: its text can hold anything, and is in the message's history.
    """
    try:
        result = run(context)
    except Control as control:
        context.logger.info("The handler raised %s.", type(control).__name__, extra={"action": "run_controlled"})
        raise
    except Exception as error:
        context.logger.warning("A run failed.", extra={"action": "run_failed", "error_type": type(error).__name__})
        raise
    if log.isEnabledFor(10):
        context.logger.debug("A run succeeded.", extra={"action": "run_done"})
    return result


def tracing_middleware(context: RunContext, run: Handler) -> Any:
    """A span for each run, where OpenTelemetry is loaded."""
    with run_span(context.queue.spec.name, context.message.headers, context.fields):
        return run(context)
