"""A DynamoDB client for cold starts: JSON over a kept-alive connection, signed here.

boto3's client costs a fifth of a second before the first request and a millisecond of CPU for each; this one a tenth
and a quarter of it. It sends each request once and knows nothing of retries: `RetryingClient` decides those for
either client. What it leaves out (proxies, other partitions, FIPS and dual-stack endpoints, profiles)
`dynamodb_client` serves, and `minimal_client` hands over to it where the environment asks for any.

Signature Version 4 is written out for one method, one path and no query, because the SDK's way to the same
sixty-four digits is part of that cost; a test holds it to botocore's own signer.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import select
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import field
from functools import cache, partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from zlib import crc32

from millrace.model.values import dataclass
from millrace.stores.dynamodb.client import Declined, EncodedStatement, NeverSent, NoAnswer

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

SERVICE = "dynamodb"
ALGORITHM = "AWS4-HMAC-SHA256"
CONTENT_TYPE = "application/x-amz-json-1.0"
VERSION = "DynamoDB_20120810."
CONNECT_TIMEOUT_S = 2.0
READ_TIMEOUT_S = 3.0
#: A connection that rested longer may be closed without our knowing: a frozen function is not notified.
REST_S = 20.0
POOL = 32

Response = dict[str, Any]


class MinimalClient:
    """The operations that the store uses, by boto3's names and arguments. Safe to share between threads."""

    #: Its batches take statements that are JSON already.
    takes_encoded = True

    def __init__(
        self, endpoint_url: str, region: str, credentials: Callable[[], Credentials], authorities: str | None = None
    ) -> None:
        parts = urlsplit(endpoint_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{endpoint_url!r} is not the address of an endpoint")
        self._host, self._port = parts.hostname, parts.port
        self.region = region
        self._secure = parts.scheme == "https"
        # Once, with the first connection: reading the certificates of the system takes longer than a request.
        self._tls = cache(partial(ssl.create_default_context, cafile=authorities))
        if self._secure and authorities:
            self._tls()  # what a deployer named is wrong at the start or never
        usual = parts.port is None or parts.port == (443 if self._secure else 80)
        self._signer = Signer(parts.hostname if usual else f"{parts.hostname}:{parts.port}", region)
        self._credentials = credentials
        self._resting: list[tuple[HTTPConnection, float]] = []

    def put_item(self, **arguments: Any) -> Response:
        return self._send("PutItem", arguments)

    def update_item(self, **arguments: Any) -> Response:
        return self._send("UpdateItem", arguments)

    def delete_item(self, **arguments: Any) -> Response:
        return self._send("DeleteItem", arguments)

    def get_item(self, **arguments: Any) -> Response:
        return self._send("GetItem", arguments)

    def query(self, **arguments: Any) -> Response:
        return self._send("Query", arguments)

    def scan(self, **arguments: Any) -> Response:
        return self._send("Scan", arguments)

    def batch_get_item(self, **arguments: Any) -> Response:
        return self._send("BatchGetItem", arguments)

    def batch_execute_statement(self, **arguments: Any) -> Response:
        return self._send("BatchExecuteStatement", arguments)

    def transact_write_items(self, **arguments: Any) -> Response:
        return self._send("TransactWriteItems", arguments)

    def close(self) -> None:
        """Close the connections that nobody uses at the moment."""
        while self._resting:
            self._resting.pop()[0].close()

    def _send(self, operation: str, arguments: Response) -> Response:
        """One request, once. Raises Declined, NeverSent or NoAnswer."""
        body = encode_request(arguments)
        headers = self._signer.headers(VERSION + operation, body, self._credentials(), time.time())
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        request = f"POST / HTTP/1.1\r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body
        connection = self._connection()
        try:
            # Head and body in one packet; http.client's own `request` would send two.
            connection.sock.sendall(request)
            response = HTTPResponse(connection.sock, method="POST")
            response.begin()
            data = response.read()
        except (OSError, HTTPException) as error:
            connection.close()
            raise NoAnswer(f"{operation}: {type(error).__name__}") from error
        if response.will_close or len(self._resting) >= POOL:
            connection.close()
        else:
            self._resting.append((connection, time.time()))
        return _read(operation, response, data)

    def _connection(self) -> HTTPConnection:
        """A rested connection that is still good, or a new one."""
        while self._resting:
            try:
                connection, since = self._resting.pop()
            except IndexError:  # another thread was faster
                break
            if time.time() - since < REST_S and _quiet(connection):
                return connection
            connection.close()
        if self._secure:
            connection = HTTPSConnection(self._host, self._port, timeout=CONNECT_TIMEOUT_S, context=self._tls())
        else:
            connection = HTTPConnection(self._host, self._port, timeout=CONNECT_TIMEOUT_S)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise NeverSent(f"no connection to {self._host}: {type(error).__name__}") from error
        connection.sock.settimeout(READ_TIMEOUT_S)
        return connection


def minimal_client(
    environment: Mapping[str, str], credentials: Callable[[], Credentials] | None = None
) -> MinimalClient | DynamoDBClient:
    """The minimal client where the environment (or `credentials`) holds all that it needs, else boto3's."""
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""
    endpoint = environment.get("AWS_ENDPOINT_URL_DYNAMODB") or environment.get("AWS_ENDPOINT_URL") or ""
    keys = credentials or (environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"))
    elsewhere = region.startswith(("cn-", "us-iso", "eu-isoe", "eusc-")) and not endpoint
    special = [name for name in _SPECIAL if environment.get(name) or environment.get(name.lower())]
    if not region or not keys or elsewhere or special:
        from millrace.stores.dynamodb.client import dynamodb_client

        return dynamodb_client()
    return MinimalClient(
        endpoint or f"https://dynamodb.{region}.amazonaws.com",
        region,
        credentials or (lambda: _environment_credentials(environment)),
        environment.get("AWS_CA_BUNDLE") or None,
    )


#: Settings that boto3 honours and the minimal client does not.
_SPECIAL = (
    "HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "AWS_USE_FIPS_ENDPOINT", "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "AWS_PROFILE",
)  # fmt: skip


def _environment_credentials(environment: Mapping[str, str]) -> Credentials:
    """As Lambda hands them to a function; read each time, so that new ones are seen."""
    return Credentials(
        environment["AWS_ACCESS_KEY_ID"],
        environment["AWS_SECRET_ACCESS_KEY"],
        environment.get("AWS_SESSION_TOKEN", ""),
    )


def _quiet(connection: HTTPConnection) -> bool:
    """Nothing to read on a resting connection. If there is, the other side has closed it."""
    waiting = select.poll()
    waiting.register(connection.sock, select.POLLIN | select.POLLERR | select.POLLHUP)
    return not waiting.poll(0)


def _read(operation: str, response: HTTPResponse, data: bytes) -> Response:
    checksum = response.headers.get("x-amz-crc32")
    if checksum is not None and str(crc32(data)) != checksum:
        raise NoAnswer(f"{operation}: the answer does not fit its checksum")
    try:
        answer: Response = json.loads(data, object_hook=_decoded) if data else {}
    except ValueError:
        answer = {}
        if response.status == 200:
            raise NoAnswer(f"{operation}: the answer is not JSON") from None
    if response.status == 200:
        return answer
    raise Declined(
        {
            **answer,
            "Error": {
                "Code": str(answer.get("__type", "")).rpartition("#")[2],
                "Message": answer.get("message") or answer.get("Message") or "",
            },
            "ResponseMetadata": {"HTTPStatusCode": response.status},
        }
    )


def encode_request(arguments: Response) -> bytes:
    """A request's body, as DynamoDB's JSON spells it. Statements that are encoded already go into it as they are."""
    statements = arguments.get("Statements", ())
    if not any(isinstance(statement, EncodedStatement) for statement in statements):
        return _json(arguments).encode()
    texts = [found.text if isinstance(found, EncodedStatement) else _json(found) for found in statements]
    others = _json({name: value for name, value in arguments.items() if name != "Statements"})[1:]
    return f'{{"Statements":[{",".join(texts)}]{"," if len(arguments) > 1 else ""}{others}'.encode()


def _json(value: Any) -> str:
    return json.dumps(value, default=_encoded, separators=(",", ":"))


def _encoded(value: Any) -> str:
    """Bytes as DynamoDB's JSON spells them."""
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode("ascii")
    raise TypeError(f"{type(value).__name__} is not a value of DynamoDB")


def _decoded(found: Response) -> Response:
    """`{"B": text}` back to bytes. An attribute that is itself called B holds an object, never a text."""
    if len(found) == 1:
        text = found.get("B")
        if type(text) is str:
            return {"B": b64decode(text)}
    return found


@dataclass(frozen=True, slots=True)
class Credentials:
    """Whom AWS takes us for. The repr holds no secret."""

    access_key: str
    secret_key: str = field(repr=False)
    session_token: str = field(default="", repr=False)


class Signer:
    """Signs requests to one endpoint. Safe to share between threads."""

    def __init__(self, host: str, region: str) -> None:
        self._host = host
        self._region = region
        self._key: tuple[tuple[str, str], bytes] = (("", ""), b"")

    def headers(self, target: str, body: bytes, credentials: Credentials, at: float) -> dict[str, str]:
        """The headers of a request, its signature among them."""
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(at))
        scope = f"{stamp[:8]}/{self._region}/{SERVICE}/aws4_request"
        # In the order of their names, as they are signed.
        headers = {"content-type": CONTENT_TYPE, "host": self._host, "x-amz-date": stamp}
        if credentials.session_token:
            headers["x-amz-security-token"] = credentials.session_token
        headers["x-amz-target"] = target
        names = ";".join(headers)
        lines = "\n".join(f"{name}:{value}" for name, value in headers.items())
        request = f"POST\n/\n\n{lines}\n\n{names}\n{hashlib.sha256(body).hexdigest()}"
        to_sign = f"{ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = hmac.digest(self._signing_key(credentials, stamp[:8]), to_sign.encode(), "sha256").hex()
        headers["authorization"] = (
            f"{ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return headers

    def _signing_key(self, credentials: Credentials, day: str) -> bytes:
        """The day's key; four rounds of HMAC that all requests of a day share."""
        wanted = (credentials.secret_key, day)
        kept, key = self._key
        if kept != wanted:
            key = f"AWS4{credentials.secret_key}".encode()
            for part in (day, self._region, SERVICE, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (wanted, key)
        return key
