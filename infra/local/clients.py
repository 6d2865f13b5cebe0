"""What a client of the gateway may take: time, bytes, connections. One that takes more is let go; others are served."""

from __future__ import annotations

import contextlib
import io
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

#: API Gateway takes no more.
MAX_BODY = 10 * 1024 * 1024
LENGTH = re.compile(r"[0-9]{1,12}")


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for each part of a request as a whole, however its bytes drip; connections at the same time."""

    idle: float = 60.0  #: until a request begins
    head: float = 10.0  #: from its first byte to the end of its headers
    body: float = 30.0
    answer: float = 30.0  #: until the client has taken it
    connections: int = 512


class Refusal(Exception):
    """A request that no function is asked about."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


TOO_SLOW = Refusal(408, "request_timeout", "The request did not come in time.")
NO_ROOM = Refusal(503, "too_many_connections", "As many connections are open as there may be: try again.")


def body_length(lengths: Sequence[str], transfer_encoding: str | None) -> int:
    """How long the body says it is. Raises Refusal where that is missing, doubtful or too much."""
    if transfer_encoding is not None:
        raise Refusal(411, "length_required", "Transfer-Encoding is not taken: send a Content-Length.")
    said = {length.strip() for length in lengths}
    if len(said) > 1 or not all(LENGTH.fullmatch(length) for length in said):
        raise Refusal(400, "invalid_request", "Content-Length is not one number of bytes.")
    length = int(said.pop()) if said else 0
    if length > MAX_BODY:
        raise Refusal(413, "body_too_large", f"{length} bytes. Allowed: at most {MAX_BODY} bytes.")
    return length


class PatientReader(io.RawIOBase):
    """A connection read against one deadline for a whole part of a request, so that dripping bytes gain nothing."""

    def __init__(self, connection: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        self._connection = connection
        self._clock = clock
        self._deadline = 0.0

    def allow(self, seconds: float) -> None:
        """Give the next part so long."""
        self._deadline = self._clock() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        left = self._deadline - self._clock()
        if left <= 0:
            raise TimeoutError
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


class Room:
    """The connections that are open. Where there is no room, the one idle for longest makes way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: set[socket.socket] = set()
        self._idle: dict[socket.socket, None] = {}  #: longest first
        self.changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, connection: socket.socket) -> bool:
        """Whether there is room for it."""
        with self.changed:
            if len(self._open) >= self._most and not self._make_way():
                return False
            self._open.add(connection)
            self.changed.notify_all()
            return True

    def leave(self, connection: socket.socket) -> None:
        with self.changed:
            self._open.discard(connection)
            self._idle.pop(connection, None)
            self.changed.notify_all()

    def is_idle(self, connection: socket.socket, *, idle: bool) -> None:
        with self.changed:
            self._idle.pop(connection, None)
            if idle and connection in self._open:
                self._idle[connection] = None
            self.changed.notify_all()

    def _make_way(self) -> bool:
        longest = next(iter(self._idle), None)
        if longest is None:
            return False
        del self._idle[longest]
        self._open.discard(longest)
        with contextlib.suppress(OSError):  # It may have gone by itself.
            longest.shutdown(socket.SHUT_RDWR)
        return True
