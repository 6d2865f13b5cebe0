"""Keys are fetched over TLS, from the host that was meant, in bounded time and size, and nothing is followed."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from millrace.signatures.fetching import MOST_BYTES, https_fetch
from millrace.signatures.published import FetchKeys, KeyAddress, KeysSilent

HOST = "keys.example"


class _Maker(BaseHTTPRequestHandler):
    """Serves keys, and everything that could be served instead."""

    seen: list[tuple[str, str, bytes, str]]
    going: threading.Event

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.seen.append((self.command, self.path, body, self.headers["host"]))
        if self.path.startswith("/status/"):
            self._answer(int(self.path.rpartition("/")[2]), b"no")
        elif self.path == "/redirect":
            self._answer(302, b"", location=f"https://{HOST}/set")
        elif self.path == "/large":
            self._answer(200, b"x" * (MOST_BYTES + 1))
        elif self.path == "/drip":
            self._drip()
        else:
            self._answer(200, b"the keys")

    do_POST = do_GET  # noqa: N815

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _drip(self) -> None:
        self.send_response(200)
        self.end_headers()
        while not self.going.wait(0.01):
            try:
                self.wfile.write(b"x")
            except OSError:
                return

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def handle_error(self, *_: Any) -> None:
        """Who does not trust the certificate hangs up."""


def _certificate(folder: Path) -> Path:
    """A certificate for HOST with its key, trusted by whoever loads it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    alternatives = x509.SubjectAlternativeName([x509.DNSName(HOST), x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(7).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )  # fmt: skip
    path = folder / "maker.pem"
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    path.write_bytes(key.private_bytes(pem, *form) + made.public_bytes(pem))
    return path


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def maker(pem: Path) -> Iterator[tuple[type[_Maker], int]]:
    going = threading.Event()
    handler = type("Maker", (_Maker,), {"seen": [], "going": going})
    server = _Server(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield handler, server.server_address[1]
    going.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def fetch(maker: tuple[type[_Maker], int], pem: Path) -> FetchKeys:
    # The address is dialled on loopback; that the certificate is also for 127.0.0.1 stands for the name.
    context = ssl.create_default_context(cafile=str(pem))
    return https_fetch(lambda: context, connect_to=lambda _host: ("127.0.0.1", maker[1]))


def at(path: str, question: bytes = b"") -> KeyAddress:
    return KeyAddress(f"https://{HOST}{path}", question)


def test_a_document_is_fetched_or_posted_for(fetch: FetchKeys, maker: tuple[type[_Maker], int]) -> None:
    assert fetch(at("/set")) == b"the keys"
    assert fetch(at("/ask", b'{"key_id": "1"}')) == b"the keys"
    assert maker[0].seen == [("GET", "/set", b"", HOST), ("POST", "/ask", b'{"key_id": "1"}', HOST)]


@pytest.mark.parametrize("status", [404, 410])
def test_what_its_host_says_is_not_there_is_none(fetch: FetchKeys, status: int) -> None:
    assert fetch(at(f"/status/{status}")) is None


@pytest.mark.parametrize("path", ["/status/500", "/status/403", "/status/429", "/status/204", "/redirect", "/large"])
def test_everything_else_is_no_answer(fetch: FetchKeys, maker: tuple[type[_Maker], int], path: str) -> None:
    with pytest.raises(KeysSilent) as silent:
        fetch(at(path))
    assert silent.value.__cause__ is None
    assert len(maker[0].seen) == 1, "no redirect is followed"


def test_a_drip_ends_at_the_deadline(maker: tuple[type[_Maker], int], pem: Path) -> None:
    """In the clock's time: each piece that comes takes a second of it."""
    ticks = iter(range(100))
    context = ssl.create_default_context(cafile=str(pem))
    to = ("127.0.0.1", maker[1])
    fetch = https_fetch(lambda: context, clock_s=lambda: float(next(ticks)), deadline_s=5.0, connect_to=lambda _h: to)
    with pytest.raises(KeysSilent):
        fetch(at("/drip"))
    assert next(ticks) <= 8


def test_a_host_without_a_trusted_certificate_is_no_answer(maker: tuple[type[_Maker], int]) -> None:
    with pytest.raises(KeysSilent):
        https_fetch(connect_to=lambda _host: ("127.0.0.1", maker[1]))(at("/set"))
    assert maker[0].seen == []


@pytest.mark.parametrize(
    "url",
    ["http://keys.example/set", "https://keys.example:8443/set", "https://u:p@keys.example/set", "file:///x", "x"],
)
def test_only_plain_https_addresses_are_dialled(fetch: FetchKeys, maker: tuple[type[_Maker], int], url: str) -> None:
    with pytest.raises(KeysSilent):
        fetch(KeyAddress(url))
    assert maker[0].seen == []
