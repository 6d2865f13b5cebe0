"""The minimal client over TLS: it talks to whom it trusts, under the name that it asked for, and to nobody else."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from millrace.stores.dynamodb.client import NeverSent
from millrace.stores.dynamodb.minimal_client import Credentials, MinimalClient

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


def certified(folder: Path, address: str) -> Path:
    """A key and a certificate that vouches for itself, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a server of the tests")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{address}.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return file


@contextmanager
def serving(file: Path) -> Iterator[int]:
    """A server that answers one request, or is hung up on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)

    def serve() -> None:
        connection, _ = listener.accept()
        try:
            with context.wrap_socket(connection, server_side=True) as secured:
                secured.recv(65_536)
                secured.sendall(ANSWER)
        except OSError:
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def ask(port: int, trusted: Path | None) -> dict[str, object]:
    keys = Credentials("AKIDEXAMPLE", "not a real one", "")
    client = MinimalClient(f"https://127.0.0.1:{port}", "eu-west-1", lambda: keys, str(trusted) if trusted else None)
    try:
        return client.get_item(TableName="t")
    finally:
        client.close()


def test_server_of_a_trusted_authority_is_talked_to(tmp_path: Path) -> None:
    file = certified(tmp_path, "127.0.0.1")
    with serving(file) as port:
        assert ask(port, file) == {}


def test_server_that_nobody_vouches_for_gets_no_request(tmp_path: Path) -> None:
    with serving(certified(tmp_path, "127.0.0.1")) as port, pytest.raises(NeverSent):
        ask(port, None)


def test_server_with_the_certificate_of_another_gets_no_request(tmp_path: Path) -> None:
    file = certified(tmp_path, "127.0.0.2")
    with serving(file) as port, pytest.raises(NeverSent):
        ask(port, file)
