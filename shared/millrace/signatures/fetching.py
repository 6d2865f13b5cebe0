"""Fetches a provider's published keys: https only, no redirects, bounded in size and time."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from contextlib import closing
from functools import cache
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from millrace.signatures.published import FetchKeys, KeyAddress, KeysSilent

#: Of a whole fetch. The shortest patience of a provider that publishes keys is 10 s.
DEADLINE_S = 2.0
#: Google's set of keys has some 2 KB, a chain of certificates some 6.
MOST_BYTES = 64 * 1024
#: What says that there is no such key, rather than that something is wrong.
_NONE_THERE = (404, 410)


def https_fetch(
    context: Callable[[], ssl.SSLContext] | None = None,
    *,
    clock_s: Callable[[], float] = time.monotonic,
    deadline_s: float = DEADLINE_S,
    connect_to: Callable[[str], tuple[str, int]] = lambda host: (host, 443),
) -> FetchKeys:
    """A fetch over TLS with the system's authorities. The arguments are what tests replace."""
    made = context or _system_context

    def fetch(address: KeyAddress) -> bytes | None:
        parts = urlsplit(address.url)
        if parts.scheme != "https" or parts.netloc != parts.hostname or parts.fragment:
            raise KeysSilent  # no port, no user: addresses come from a table
        until = clock_s() + deadline_s
        connection = HTTPSConnection(*connect_to(parts.hostname), timeout=deadline_s, context=made())
        try:
            return _asked(connection, parts.hostname, _target(parts), address.question, lambda: until - clock_s())
        except (OSError, HTTPException):
            raise KeysSilent from None  # not what was raised: a context could show credentials
        finally:
            connection.close()

    return fetch


def _target(parts: SplitResult) -> str:
    return f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"


def _asked(
    connection: HTTPSConnection, host: str, path: str, question: bytes, left: Callable[[], float]
) -> bytes | None:
    headers = {"host": host, "accept": "*/*", "content-type": "application/json"}
    connection.request("POST" if question else "GET", path, body=question or None, headers=headers)
    with closing(connection.getresponse()) as response:
        if response.status in _NONE_THERE:
            return None
        if response.status != 200:
            raise KeysSilent  # a redirect too
        return _whole(connection, response, left)


def _whole(connection: HTTPSConnection, response: HTTPResponse, left: Callable[[], float]) -> bytes:
    """The body, in as many pieces as it comes in before the deadline."""
    found = bytearray()
    while True:
        remaining = left()
        if remaining <= 0:
            raise KeysSilent
        if connection.sock is not None:
            connection.sock.settimeout(remaining)
        piece = response.read1(MOST_BYTES)
        found += piece
        if len(found) > MOST_BYTES:
            raise KeysSilent
        if not piece:
            return bytes(found)


@cache
def _system_context() -> ssl.SSLContext:
    return ssl.create_default_context()
