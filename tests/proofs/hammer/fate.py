"""A store whose process dies at a chosen call: a crash between any two steps of the protocol."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

from millrace.stores.interface import Store


class FatedStore:
    """Passes every call on, and kills its own process with SIGKILL at call number `dies_at`, before it or after it."""

    def __init__(self, store: Store, *, dies_at: int | None, after: bool) -> None:
        self._store = store
        self._calls_left = dies_at
        self._after = after

    def __getattr__(self, name: str) -> Any:
        method: Callable[..., Any] = getattr(self._store, name)

        def fated(*arguments: Any, **named: Any) -> Any:
            if self._calls_left is None:
                return method(*arguments, **named)
            self._calls_left -= 1
            last = self._calls_left <= 0
            if last and not self._after:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = method(*arguments, **named)
            if last:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return fated
