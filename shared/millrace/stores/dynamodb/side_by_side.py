"""Several requests at the same time, where one after the other would add up their latencies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

#: Requests at the same time.
ABREAST = 8


def side_by_side(call: Callable[[T], R], values: Sequence[T]) -> list[R]:
    """What each call gives, in their order. Raises the first error, after all of them are over.

    The calling thread takes part, so that a single value costs no thread. `concurrent.futures` would cost a cold
    start its import.
    """
    open_ = list(enumerate(values))[::-1]
    found: dict[int, R] = {}
    errors: dict[int, Exception] = {}
    taking = threading.Lock()

    def work() -> None:
        while True:
            with taking:
                if not open_:
                    return
                number, value = open_.pop()
            try:
                found[number] = call(value)
            except Exception as error:  # noqa: BLE001 (raised again below)
                errors[number] = error

    threads: list[Any] = [threading.Thread(target=work, name="side") for _ in range(min(ABREAST, len(values)) - 1)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[min(errors)]
    return [found[number] for number in range(len(values))]
