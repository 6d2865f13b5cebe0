"""Processes that kill or stop themselves at a chosen step."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from millrace.stores.interface import Store


def die() -> None:
    """With SIGKILL: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def freeze() -> None:
    """With SIGSTOP: the process goes on where it was when somebody sends it SIGCONT.

    Sent to this very thread: sent to the process, another thread may take it, and this one goes on for a moment.
    """
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def before(function: Callable[..., Any], event: Callable[[], None]) -> Callable[..., Any]:
    """The function, with the event before each call."""

    def wrapped(*arguments: Any, **named: Any) -> Any:
        event()
        return function(*arguments, **named)

    return wrapped


def after(function: Callable[..., Any], event: Callable[[], None]) -> Callable[..., Any]:
    """The function, with the event after each call, before its answer is used."""

    def wrapped(*arguments: Any, **named: Any) -> Any:
        answer = function(*arguments, **named)
        event()
        return answer

    return wrapped


class CrashingStore:
    """Passes every call on; at call number `dies_at` its process dies, before the call or after it."""

    def __init__(self, store: Store, *, dies_at: int | None, dies_after: bool) -> None:
        self._store = store
        self._calls_left = dies_at
        self._around = after if dies_after else before

    def __getattr__(self, name: str) -> Any:
        return self._around(getattr(self._store, name), self._count)

    def _count(self) -> None:
        if self._calls_left is not None:
            self._calls_left -= 1
            if self._calls_left <= 0:
                die()
