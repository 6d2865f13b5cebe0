"""Connections that go to the address that was checked, and to no other."""

from __future__ import annotations

import socket
from functools import partial
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError
from urllib3.util.timeout import Timeout

from millrace.worker.targets.address import AddressGuard

POOLS = 50
KEPT_PER_HOST = 10


class _Guarded:
    """Resolves, checks and connects in one step; the name stays for TLS and the Host header."""

    guard: AddressGuard
    host: str
    port: int
    timeout: Any
    source_address: Any
    socket_options: Any

    def _new_conn(self) -> socket.socket:
        try:
            address = self.guard.address(self.host, self.port)
            timeout = Timeout.resolve_default_timeout(self.timeout)
            connected = socket.create_connection((address, self.port), timeout, self.source_address)
            for option in self.socket_options or ():
                connected.setsockopt(*option)
        except OSError as error:
            raise NewConnectionError(self, f"no connection: {error}") from error  # type: ignore[arg-type]
        return connected


class _GuardedHttp(_Guarded, HTTPConnection):
    def __init__(self, *args: Any, guard: AddressGuard, **settings: Any) -> None:
        self.guard = guard
        HTTPConnection.__init__(self, *args, **settings)


class _GuardedHttps(_Guarded, HTTPSConnection):
    def __init__(self, *args: Any, guard: AddressGuard, **settings: Any) -> None:
        self.guard = guard
        HTTPSConnection.__init__(self, *args, **settings)


def guarded_pools(guard: AddressGuard) -> urllib3.PoolManager:
    """A pool manager every connection of which goes through the guard; no proxy from the environment."""

    class HttpPool(HTTPConnectionPool):
        ConnectionCls = partial(_GuardedHttp, guard=guard)  # type: ignore[assignment]

    class HttpsPool(HTTPSConnectionPool):
        ConnectionCls = partial(_GuardedHttps, guard=guard)  # type: ignore[assignment]

    manager = urllib3.PoolManager(num_pools=POOLS, maxsize=KEPT_PER_HOST, block=False)
    manager.pool_classes_by_scheme = {"http": HttpPool, "https": HttpsPool}
    return manager
