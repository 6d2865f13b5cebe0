"""Where an outgoing request may go to: public addresses, checked after DNS and before the connection.

A name is resolved, every address that it has is checked, and the connection is made to the checked address itself,
so a name that resolves to something else a moment later (rebinding) gains nothing. TLS still verifies the name.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import NewConnectionError
from urllib3.util.timeout import Timeout

Address = IPv4Address | IPv6Address
#: Gives the addresses of a host and port, as `socket.getaddrinfo` does.
Resolve = Callable[[str, int], list[str]]

#: What `is_global` of some Python releases lets through, and what only looks public.
NEVER = tuple(
    ip_network(network)
    for network in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and some clouds' own services
        "169.254.0.0/16",  # link-local: instance and task metadata
        "192.0.0.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "198.18.0.0/15",
        "240.0.0.0/4",
        "fd00::/8",
        "fec0::/10",
        "64:ff9b:1::/48",  # NAT64 of a local network
        "2001:db8::/32",
    )
)
NAT64 = ip_network("64:ff9b::/96")
POOLS = 50
CONNECTIONS_PER_HOST = 10


class AddressRefused(Exception):
    """A target's address is not one that a message may be sent to."""


def resolve(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class AddressGuard:
    """Finds the address to connect to. `allow_loopback` is for development only."""

    def __init__(self, *, allow_loopback: bool = False, resolve: Resolve = resolve) -> None:
        self._allow_loopback = allow_loopback
        self._resolve = resolve

    def address(self, host: str, port: int) -> str:
        """A checked address of the host. Raises AddressRefused when any of its addresses is not public.

        One private address among public ones is refused too: which of them is used must not be a matter of chance.
        """
        try:
            found = self._resolve(host.strip("[]"), port)
        except (OSError, UnicodeError) as error:
            raise OSError(f"{host!r} does not resolve") from error
        for text in found:
            if not self._may_go_to(ip_address(text.partition("%")[0])):
                raise AddressRefused(f"{host!r} resolves to an address that is not public")
        if not found:
            raise OSError(f"{host!r} has no address")
        return found[0]

    def _may_go_to(self, address: Address) -> bool:
        inner = embedded(address)
        if self._allow_loopback and (inner or address).is_loopback:
            return True
        return is_public(address) and (inner is None or is_public(inner))


def is_public(address: Address) -> bool:
    listed = any(address in network for network in NEVER if network.version == address.version)
    special = (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
    )
    # NAT64 addresses count as reserved; what they lead to is checked by itself.
    translated = address.version == 6 and address in NAT64
    return translated or (address.is_global and not listed and not special)


def embedded(address: Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 one leads to: mapped, compatible, 6to4, Teredo or NAT64."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped:
        return address.ipv4_mapped
    if address.sixtofour:
        return address.sixtofour
    if address.teredo:
        return address.teredo[1]
    if address in NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    compatible = int(address) >> 32 == 0 and int(address) > 1
    return IPv4Address(int(address)) if compatible else None


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

    manager = urllib3.PoolManager(num_pools=POOLS, maxsize=CONNECTIONS_PER_HOST, block=False)
    manager.pool_classes_by_scheme = {"http": HttpPool, "https": HttpsPool}
    return manager
