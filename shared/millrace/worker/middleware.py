"""Middleware: callables around the handler, the first of the list outermost.

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

from millrace.worker.context import Context

#: Does the work of one message: gives a result (bytes, or what JSON can spell, or None) or raises.
Handler = Callable[[Context], Any]
Middleware = Callable[[Context, Handler], Any]


def chain(middleware: Sequence[Middleware], handler: Handler) -> Handler:
    """The handler with its middleware around it."""
    for layer in reversed(middleware):
        handler = partial(_call, layer, handler)
    return handler


def _call(layer: Middleware, inner: Handler, context: Context) -> Any:
    return layer(context, inner)
