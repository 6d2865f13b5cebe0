"""How far each task is, while it runs: executors send their counts to the driver, a line a second.

Spark's own counters come with the end of a task, which may be an hour. Nothing depends on this channel: it serves the
progress line alone. Where the driver cannot be reached, a task goes on without it after one try.
"""

from __future__ import annotations

import json
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hmac import compare_digest
from typing import Any

RunCounts = dict[str, float]

#: A task says something at most so often.
EVERY_S = 1.0
CONNECT_S = 1.0
#: No honest line is longer; no run has more tasks.
MAX_LINE, MAX_TASKS = 4096, 100_000


@dataclass(frozen=True, slots=True)
class Channel:
    """Where the driver listens."""

    host: str
    port: int
    token: str = field(repr=False)  #: Only who knows it is heard: anybody on the network can connect.


class ProgressServer:
    """The driver's side: the latest counts of each task. A repeated task takes the place of its first try."""

    def __init__(self, host: str, bind: str, token: str) -> None:
        latest: dict[str, RunCounts] = {}
        self._latest = latest

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):  # a caller that is silent, or an executor that died: neither is an error here
                    self._listen()

            def _listen(self) -> None:
                self.connection.settimeout(CONNECT_S)
                if not compare_digest(self.rfile.readline(MAX_LINE).strip(), token.encode()):
                    return
                self.connection.settimeout(None)
                while line := self.rfile.readline(MAX_LINE):
                    try:
                        task, counts = json.loads(line)
                        heard = {str(name): float(number) for name, number in counts.items()}
                    except (ValueError, TypeError, AttributeError):
                        return
                    if task in latest or len(latest) < MAX_TASKS:
                        latest[task] = heard

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False

        self._server = Server((bind, 0), Handler)
        self.channel = Channel(host, self._server.server_address[1], token)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="channel", daemon=True)
        self._thread.start()

    def totals(self) -> RunCounts:
        """The sum over all tasks that were heard of."""
        total: RunCounts = {}
        for counts in list(self._latest.values()):
            for name, number in counts.items():
                total[name] = total.get(name, 0.0) + number
        return total

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ProgressSender:
    """A task's side. Never raises, and gives up for good at the first failure."""

    def __init__(self, channel: Channel | None, task: str, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._channel = channel
        self._task = task
        self._monotonic = monotonic
        self._next = 0.0
        self._socket: Any = None

    def send(self, counts: RunCounts, *, last: bool = False) -> None:
        """Say how far the task is, unless it said so a moment ago."""
        now = self._monotonic()
        if self._channel is None or (now < self._next and not last):
            return
        self._next = now + EVERY_S
        try:
            if self._socket is None:
                self._socket = socket.create_connection((self._channel.host, self._channel.port), CONNECT_S)
                self._socket.sendall(self._channel.token.encode() + b"\n")
            self._socket.sendall(json.dumps([self._task, counts]).encode() + b"\n")
        except OSError:
            last, self._channel = True, None
        if last and self._socket is not None:
            self._socket.close()
            self._socket = None
