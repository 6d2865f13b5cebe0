"""The gate that a fetch goes through: how much may be claimed now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from millrace.engine.queue import Queue

NO_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Passage:
    """How many may be claimed now, and when to ask again where none may."""

    limit: int = NO_LIMIT
    next_at: int | None = None


class Gate(Protocol):
    def passage(self, queue: Queue) -> Passage: ...


class _Open:
    def passage(self, queue: Queue) -> Passage:  # noqa: ARG002 (the interface's)
        return Passage()


OPEN_GATE = _Open()
