"""Where a message may be sent: public addresses only, decided after DNS, and connected to as decided."""

from __future__ import annotations

import socket
import threading
from itertools import cycle

import pytest

from millrace.worker.targets.address import AddressGuard, AddressRefused, guarded_pools

PRIVATE = [
    "127.0.0.1",
    "127.8.9.1",
    "0.0.0.0",  # noqa: S104
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "169.254.170.2",
    "100.64.0.1",
    "192.0.0.8",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:5ef5:79fb:0:0:5601:5601",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "2001:db8::1",
    "100::1",
]
PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_what_is_not_public_is_refused(address: str) -> None:
    with pytest.raises(AddressRefused):
        AddressGuard(resolve=lambda _host, _port: [address]).address("example.com", 443)


@pytest.mark.parametrize("address", PUBLIC)
def test_what_is_public_is_let_through(address: str) -> None:
    assert AddressGuard(resolve=lambda _host, _port: [address]).address("example.com", 443) == address


@pytest.mark.parametrize("private", ["10.0.0.1", "::1", "169.254.169.254"])
def test_one_private_address_among_public_ones_is_refused(private: str) -> None:
    with pytest.raises(AddressRefused):
        AddressGuard(resolve=lambda _host, _port: ["8.8.8.8", private]).address("example.com", 443)


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "localhost", "0"])
def test_other_spellings_of_this_machine_are_refused(host: str) -> None:
    with pytest.raises((AddressRefused, OSError)):
        AddressGuard().address(host, 443)


def test_the_development_switch_opens_loopback_and_nothing_else() -> None:
    guard = AddressGuard(allow_loopback=True, resolve=lambda host, _port: [host])
    assert guard.address("127.0.0.1", 80) == "127.0.0.1"
    assert guard.address("::1", 80) == "::1"
    for other in ("10.0.0.1", "169.254.169.254", "0.0.0.0", "fd00::1"):  # noqa: S104
        with pytest.raises(AddressRefused):
            guard.address(other, 80)


def test_the_refusal_names_no_address() -> None:
    """The text ends up in dead letters that a tenant may read: it must not map the network."""
    with pytest.raises(AddressRefused) as refused:
        AddressGuard(resolve=lambda _host, _port: ["10.9.8.7"]).address("internal.example", 443)
    assert "10.9.8.7" not in str(refused.value)


def test_a_name_that_changes_after_the_check_gains_nothing() -> None:
    """One resolution for each connection, and that very address is connected to."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    asked: list[str] = []
    answers = cycle([["127.0.0.1"], ["10.0.0.1"]])

    def resolve(host: str, _port: int) -> list[str]:
        asked.append(host)
        return next(answers)

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    thread = threading.Thread(target=serve)
    thread.start()
    pools = guarded_pools(AddressGuard(allow_loopback=True, resolve=resolve))
    answer = pools.request("POST", f"http://rebinding.example:{port}/", retries=False, timeout=5)
    assert (answer.status, asked) == (204, ["rebinding.example"])
    with pytest.raises(AddressRefused):
        pools.request("POST", f"http://rebinding.example:{port}/", retries=False, timeout=5)
    thread.join()
    listener.close()
    pools.clear()
