"""The minimal client: DynamoDB Local as its engine, a rude server for the rest."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import pytest

from infra.local.dynamodb import REGION
from millrace.stores.dynamodb import minimal_client as minimal_client_module
from millrace.stores.dynamodb.client import Declined, NeverSent, NoAnswer, TableNames
from millrace.stores.dynamodb.minimal_client import Credentials, MinimalClient, minimal_client

KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}

LAMBDA = {**KEYS, "AWS_SESSION_TOKEN": "IQoJb3JpZ2luX2VjE//////////w==", "AWS_REGION": "eu-west-1"}


# -- a real engine -------------------------------------------------------------------------------------------------
@pytest.fixture
def client(engine_url: str) -> Iterator[MinimalClient]:
    client = MinimalClient(engine_url, REGION, lambda: Credentials("local", "local"))
    yield client
    client.close()


# -- a rude server -------------------------------------------------------------------------------------------------
class Server:
    """Answers each connection as planned, one request each."""

    def __init__(self, answer: Callable[[socket.socket], None]) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answer = answer
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                connection.recv(65_536)
                self._answer(connection)

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)


def _reply(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *(f"{n}: {v}" for n, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.fixture
def talk() -> Iterator[Callable[..., MinimalClient]]:
    opened: list[tuple[Server, MinimalClient]] = []

    def start(answer: Callable[[socket.socket], None]) -> MinimalClient:
        server = Server(answer)
        client = MinimalClient(server.url, REGION, lambda: Credentials("local", "local"))
        opened.append((server, client))
        return client

    yield start
    for server, client in opened:
        client.close()
        server.stop()


# -- which client --------------------------------------------------------------------------------------------------
def test_lambda_s_environment_gets_the_minimal_client() -> None:
    client = minimal_client(LAMBDA)
    assert isinstance(client, MinimalClient)
    assert client._host == "dynamodb.eu-west-1.amazonaws.com"
    assert client._tls().check_hostname


def test_certificates_of_the_system_are_read_with_the_first_connection_and_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[ssl.SSLContext] = []
    create = ssl.create_default_context

    def counted(cafile: str | None = None) -> ssl.SSLContext:
        made.append(create(cafile=cafile))
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", counted)
    client = MinimalClient("https://127.0.0.1:1", "eu-west-1", lambda: Credentials("a", "b"))
    assert not made
    for _ in range(2):
        with pytest.raises(NeverSent):
            client.get_item(TableName="t", Key={})
    assert len(made) == 1
    assert made[0].verify_mode is ssl.CERT_REQUIRED


def test_authorities_of_the_environment_are_the_ones_trusted(tmp_path: Path) -> None:
    missing = str(tmp_path / "authorities.pem")
    with pytest.raises(FileNotFoundError):
        minimal_client({**LAMBDA, "AWS_CA_BUNDLE": missing})


def test_credentials_are_read_anew_for_every_request() -> None:
    environment = dict(LAMBDA)
    client = minimal_client(environment)
    assert isinstance(client, MinimalClient)
    environment["AWS_SECRET_ACCESS_KEY"] = "rotated"
    assert client._credentials().secret_key == "rotated"


@pytest.mark.parametrize(
    "change",
    [
        {"AWS_REGION": ""},
        {"AWS_ACCESS_KEY_ID": ""},
        {"AWS_REGION": "cn-north-1"},
        {"HTTPS_PROXY": "http://proxy"},
        {"https_proxy": "http://proxy"},
        {"AWS_USE_FIPS_ENDPOINT": "true"},
        {"AWS_PROFILE": "mill"},
    ],
)
def test_what_only_the_sdk_can_do_is_left_to_it(change: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr("millrace.stores.dynamodb.client.dynamodb_client", lambda: asked.append(True))
    minimal_client({**LAMBDA, **change})
    assert asked == [True]


def test_bytes_come_back_as_bytes_and_an_attribute_called_b_as_itself(
    client: MinimalClient, tables: TableNames, tenant: str
) -> None:
    item = {
        "pk": {"S": tenant},
        "sk": {"S": "minimal"},
        "body": {"B": bytes(range(256))},
        "empty": {"B": b""},
        "B": {"S": "AAAA"},
        "map": {"M": {"B": {"S": "text"}, "b": {"B": b"\x00"}}},
        "many": {"L": [{"B": b"x"}, {"N": "1"}, {"S": "Mühle 🙂"}]},
    }
    client.put_item(TableName=tables.queue, Item=item)
    found = client.get_item(TableName=tables.queue, Key={"pk": item["pk"], "sk": item["sk"]}, ConsistentRead=True)
    assert found["Item"] == item


def test_refusal_has_the_shape_that_botocore_gives_it(client: MinimalClient, tables: TableNames, tenant: str) -> None:
    item = {"pk": {"S": tenant}, "sk": {"S": "taken"}}
    put = {"TableName": tables.queue, "Item": item, "ConditionExpression": "attribute_not_exists(pk)"}
    client.put_item(**put)
    with pytest.raises(Declined) as caught:
        client.put_item(**put, ReturnValuesOnConditionCheckFailure="ALL_OLD")
    response = caught.value.response
    assert response["Error"]["Code"] == "ConditionalCheckFailedException"
    assert response["ResponseMetadata"]["HTTPStatusCode"] == 400
    assert response["Item"] == item


def test_connection_is_kept_and_used_again(client: MinimalClient, tables: TableNames, tenant: str) -> None:
    get = {"TableName": tables.queue, "Key": {"pk": {"S": tenant}, "sk": {"S": "x"}}}
    client.get_item(**get)
    ((first, _),) = client._resting
    client.get_item(**get)
    ((second, _),) = client._resting
    assert first is second


def test_connection_that_rested_too_long_is_not_trusted(
    client: MinimalClient, tables: TableNames, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    get = {"TableName": tables.queue, "Key": {"pk": {"S": tenant}, "sk": {"S": "x"}}}
    client.get_item(**get)
    ((first, _),) = client._resting
    monkeypatch.setattr(minimal_client_module, "REST_S", 0.0)
    client.get_item(**get)
    assert client._resting[0][0] is not first


def test_connection_cut_before_the_answer_is_no_answer(talk: Callable[..., MinimalClient]) -> None:
    with pytest.raises(NoAnswer):
        talk(lambda connection: None).put_item(TableName="t")


@pytest.mark.parametrize(
    "reply",
    [
        b"nonsense\r\n\r\n",
        _reply(b"not json"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
        _reply(b"{}", **{"x-amz-crc32": str(crc32(b"{ }"))}),
    ],
)
def test_answer_that_cannot_be_trusted_is_no_answer(talk: Callable[..., MinimalClient], reply: bytes) -> None:
    with pytest.raises(NoAnswer):
        talk(lambda connection: connection.sendall(reply)).put_item(TableName="t")


def test_checksum_that_fits_is_believed(talk: Callable[..., MinimalClient]) -> None:
    reply = _reply(b'{"a":1}', **{"x-amz-crc32": str(crc32(b'{"a":1}'))})
    assert talk(lambda connection: connection.sendall(reply)).put_item(TableName="t") == {"a": 1}


def test_page_of_a_gateway_keeps_its_status(talk: Callable[..., MinimalClient]) -> None:
    reply = _reply(b"<html>", "502 Bad Gateway")
    with pytest.raises(Declined) as caught:
        talk(lambda connection: connection.sendall(reply)).put_item(TableName="t")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 502


def test_goodbye_on_a_resting_connection_is_heard(talk: Callable[..., MinimalClient]) -> None:
    """The server answers, promises to stay, and leaves; the next request goes over a new connection, once."""
    client = talk(lambda connection: connection.sendall(_reply(json.dumps({}).encode())))
    client.put_item(TableName="t")
    ((resting, _),) = client._resting
    resting.sock.settimeout(5)
    assert resting.sock.recv(1, socket.MSG_PEEK) == b""
    assert client.put_item(TableName="t") == {}


def test_nobody_listening_means_never_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NeverSent):
        MinimalClient(f"http://127.0.0.1:{port}", REGION, lambda: Credentials("a", "b")).put_item(TableName="t")


@pytest.mark.parametrize("address", ["", "dynamodb.eu-west-1.amazonaws.com", "ftp://x", "https://"])
def test_address_that_is_none_is_refused_at_once(address: str) -> None:
    with pytest.raises(ValueError, match="endpoint"):
        MinimalClient(address, REGION, lambda: Credentials("a", "b"))
