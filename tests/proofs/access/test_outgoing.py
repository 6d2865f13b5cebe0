"""Where an http target may lead: every spelling of an address that is not public, and every way to get there."""

from __future__ import annotations

import socket

import pytest
import urllib3

from millrace.engine.dead_letters import list_dead_letters
from millrace.worker.targets.address import AddressGuard, AddressRefused, guarded_pools, resolve
from tests.conftest import Bench
from tests.worker.rigs import put_n
from tests.worker.targets.conftest import receiver
from tests.worker.targets.receiver import Receiver, http_rig

__all__ = ["receiver"]

#: How to write it → what is meant. None of them may be connected to; none is a name that a resolver is asked for.
SPELLINGS = {
    "decimal": "https://2130706433/",
    "decimal, the metadata service": "https://2852039166/latest/meta-data",
    "octal": "https://0177.0.0.1/",
    "octal, padded": "https://00000177.0.0.1/",
    "hex": "https://0x7f000001/",
    "hex, by parts": "https://0x7f.0x0.0x0.0x1/",
    "mixed": "https://0251.254.0xa9fe/",
    "short": "https://127.1/",
    "zero": "https://0/",
    "IPv6 loopback": "https://[::1]/",
    "IPv6, written out": "https://[0000:0000:0000:0000:0000:0000:0000:0001]/",
    "IPv6-mapped": "https://[::ffff:127.0.0.1]/",
    "IPv6-mapped in hex": "https://[::ffff:a9fe:a9fe]/",
    "IPv4-compatible": "https://[::127.0.0.1]/",
    "NAT64": "https://[64:ff9b::169.254.169.254]/",
    "NAT64 of a local network": "https://[64:ff9b:1::10.0.0.1]/",
    "6to4": "https://[2002:a9fe:a9fe::]/",
    "Teredo": "https://[2001:0:5ef5:79fb:0:0:5601:5601]/",
    "link-local": "https://[fe80::1]/",
    "unique local, the metadata service": "https://[fd00:ec2::254]/",
    "the metadata service": "https://169.254.169.254/latest/api/token",
    "the task metadata service": "https://169.254.170.2/v2/credentials",
    "carrier-grade NAT": "https://100.100.100.200/",
    "a port": "https://127.0.0.1:6379/",
    "userinfo that looks like the host": "https://good.example@127.0.0.1/",
    "userinfo with a password": "https://good.example:443@169.254.169.254/",
    "two at signs": "https://good.example@good.example@10.0.0.1/",
    "a fragment that looks like the host": "https://127.0.0.1#@good.example/",
    "a query that looks like the host": "https://127.0.0.1?@good.example/",
    "a backslash": "https://127.0.0.1\\@good.example/",
    "this machine's name": "https://localhost/",
    "this machine's name with a dot": "https://localhost./",
    "this machine's name in capitals": "https://LOCALHOST/",
    "digits of another script": "https://１２７.０.０.１/",
    "a dot of another script": "https://127。0。0。1/",
}


def _numeric_or_local(host: str, port: int) -> list[str]:
    """The machine's own resolver, kept from asking anybody: another host than the one that is meant was found."""
    assert "good.example" not in host, f"the wrong part of the address was taken for its host: {host}"
    if "localhost" not in host.lower():
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        return [str(entry[4][0]) for entry in found]
    return resolve(host, port)


@pytest.mark.parametrize("name", SPELLINGS)
def test_no_spelling_leads_inside(name: str) -> None:
    """Refused before anything is connected to, or not readable as an address at all."""
    pools = guarded_pools(AddressGuard(resolve=_numeric_or_local))
    with pytest.raises((AddressRefused, urllib3.exceptions.LocationParseError)):
        pools.request("POST", SPELLINGS[name], retries=False, timeout=1)
    pools.clear()


REDIRECTS = (
    "http://169.254.169.254/latest/meta-data",
    "//169.254.169.254/latest/meta-data",
    "https://2852039166/",
    "http://[::ffff:169.254.169.254]/",
    "http://10.0.0.1/",
    "http://good.example@10.0.0.1/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "ftp://127.0.0.1/",
)


@pytest.mark.parametrize("location", REDIRECTS)
def test_no_redirect_leads_inside(bench: Bench, receiver: Receiver, location: str) -> None:
    """Each hop is checked like the first: loopback alone is open here, for the endpoint of the test."""
    rig = http_rig(bench, receiver, follow_redirects=True)
    receiver.answers = [(307, {"location": location}, b"")]
    put_n(rig.queue())
    rig.drain()
    assert len(receiver.requests) == 1
    (dead_letter,) = list_dead_letters(rig.queue()).items
    assert dead_letter.reason == "rejected"
