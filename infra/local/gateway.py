"""A gateway for a laptop: HTTP in, API Gateway events (HTTP API, payload 2.0) to the functions, HTTP out.

It answers as API Gateway does where a function is not asked: 401 without an Authorization header, 403 where the
authoriser says no, 404 without a route, 413 for an event that Lambda would not take, 500 where a function fails.
Routes are passed in:

    Gateway([Binding("ANY /v1/{proxy+}", consumer.handler, authoriser.handler)]).start()
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import logging
import re
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote

from infra.local.clients import NO_ROOM, TOO_SLOW, Limits, PatientReader, Refusal, Room, body_length

Function = Callable[[dict[str, Any], Any], Any]
log = logging.getLogger(__name__)
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
#: An event that a function is invoked with, encoded: more is refused by Lambda, and API Gateway says so.
PAYLOAD_BYTES = 6 * 1024 * 1024
#: However it is encoded, an event with it is below that.
SMALL_BODY = PAYLOAD_BYTES // 8
TEXT = re.compile(r"text/|application/(json|javascript|xml|x-www-form-urlencoded)|\+json|\+xml", re.I)


@dataclass(frozen=True, slots=True)
class Binding:
    """One route of the gateway: `GET /path/{name}`, `ANY /path/{proxy+}`."""

    key: str
    function: Function
    authoriser: Function | None = None

    def match(self, method: str, path: str) -> dict[str, str] | None:
        """The path parameters where the request is this route's."""
        wanted, _, template = self.key.partition(" ")
        if wanted not in ("ANY", method):
            return None
        pattern = re.sub(r"\\\{(\w+)\\\+\\\}", r"(?P<\1>.+)", re.escape(template))
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", pattern)
        found = re.fullmatch(pattern, path)
        return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}


@dataclass(frozen=True, slots=True)
class Request:
    """An HTTP request as it came in."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]  #: names in lower case
    body: bytes
    source_ip: str

    def event(self, binding: Binding, parameters: Mapping[str, str]) -> dict[str, Any]:
        """The event that API Gateway would send."""
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": binding.key,
            "rawPath": self.path,
            "rawQueryString": self.query,
            "headers": dict(self.headers),
            "requestContext": {
                "accountId": "000000000000",
                "apiId": "local",
                "domainName": self.headers.get("host", "127.0.0.1"),
                "http": {
                    "method": self.method,
                    "path": self.path,
                    "protocol": "HTTP/1.1",
                    "sourceIp": self.source_ip,
                    "userAgent": self.headers.get("user-agent", ""),
                },
                "requestId": str(uuid.uuid4()),
                "routeKey": binding.key,
                "stage": "$default",
                "timeEpoch": time.time_ns() // 1_000_000,
            },
            "isBase64Encoded": False,
        }
        if self.query:
            event["queryStringParameters"] = dict(parse_qsl(self.query, keep_blank_values=True))
        if parameters:
            event["pathParameters"] = dict(parameters)
        if self.body:
            event.update(_event_body(self.body, self.headers.get("content-type", "")))
        return event


@dataclass(frozen=True, slots=True)
class GatewayResponse:
    """What goes out."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def _event_body(body: bytes, content_type: str) -> dict[str, Any]:
    if TEXT.search(content_type):
        try:
            return {"body": body.decode(), "isBase64Encoded": False}
        except UnicodeDecodeError:
            pass
    return {"body": base64.b64encode(body).decode(), "isBase64Encoded": True}


def payload_bytes(payload: Any) -> int:
    """The size of an event or an answer as Lambda counts it."""
    return len(json.dumps(payload, ensure_ascii=False, separators=(",", ":"), default=str).encode("utf-8", "replace"))


def _said(status: int, message: str) -> GatewayResponse:
    """API Gateway's own words."""
    return GatewayResponse(status, {"Content-Type": "application/json"}, json.dumps({"message": message}).encode())


def answer(bindings: Sequence[Binding], request: Request) -> GatewayResponse:
    """Route, authorise, call, translate."""
    for binding in bindings:
        parameters = binding.match(request.method, request.path)
        if parameters is not None:
            return _called(binding, request, parameters)
    return _said(404, "Not Found")


def _called(binding: Binding, request: Request, parameters: Mapping[str, str]) -> GatewayResponse:
    event = request.event(binding, parameters)
    try:
        if binding.authoriser is not None:
            if not request.headers.get("authorization"):
                return _said(401, "Unauthorized")
            verdict = binding.authoriser(_authoriser_event(event), None)
            if not verdict.get("isAuthorized"):
                return _said(403, "Forbidden")
            event["requestContext"]["authorizer"] = {"lambda": verdict.get("context") or {}}
        if len(request.body) > SMALL_BODY and payload_bytes(event) > PAYLOAD_BYTES:
            return _said(413, "Request Too Long")
        return _response(binding.function(event, None))
    except Exception:
        log.exception("function failed", extra={"action": "function_failed", "route": binding.key})
        return _said(500, "Internal Server Error")


def _authoriser_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """An authoriser gets the request without its body."""
    kept = {name: value for name, value in event.items() if name not in ("body", "isBase64Encoded")}
    identity = [event["headers"].get("authorization", "")]
    return {**kept, "type": "REQUEST", "identitySource": identity, "routeArn": f"arn:local/{event['routeKey']}"}


def _response(result: Any) -> GatewayResponse:
    if not isinstance(result, Mapping) or "statusCode" not in result:
        return GatewayResponse(200, {"Content-Type": "application/json"}, json.dumps(result).encode())
    body = result.get("body") or ""
    content = base64.b64decode(body) if result.get("isBase64Encoded") else str(body).encode()
    return GatewayResponse(int(result["statusCode"]), dict(result.get("headers") or {}), content)


def _refused(refusal: Refusal) -> GatewayResponse:
    """What the gateway itself refuses, in the form of every other refusal."""
    document = {
        "type": f"urn:millrace:{refusal.code}",
        "title": HTTPStatus(refusal.status).phrase,
        "status": refusal.status,
        "code": refusal.code,
        "detail": refusal.detail,
    }
    headers = {"Content-Type": "application/problem+json", "Connection": "close"}
    return GatewayResponse(refusal.status, headers, json.dumps(document).encode())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for each answer
    server: _Server
    rfile: io.BufferedReader
    answered: bool  #: or about to be: an answer that the client does not take is not followed by another

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()
        self.rfile.close()
        self.reader = PatientReader(self.connection)
        self.rfile = io.BufferedReader(self.reader)

    def handle_one_request(self) -> None:
        """Wait for a request, then give it so long for each of its parts."""
        self.answered = False
        self.requestline, self.command, self.request_version = "", "", self.protocol_version
        if not self._begins():
            self.close_connection = True
            return
        self.reader.allow(self.server.limits.head)
        super().handle_one_request()

    def _begins(self) -> bool:
        """Wait for the first byte of a request. While it waits, the connection may have to make way for others."""
        self.server.room.is_idle(self.connection, idle=True)
        self.reader.allow(self.server.limits.idle)
        try:
            return bool(self.rfile.peek(1))
        except OSError:
            return False
        finally:
            self.server.room.is_idle(self.connection, idle=False)

    def _serve(self) -> None:
        try:
            response = answer(self.server.bindings, self._read())
        except Refusal as refusal:
            response = _refused(refusal)
            self.close_connection = True
        self._send(response)

    def _send(self, response: GatewayResponse) -> None:
        self.answered = True
        self.connection.settimeout(self.server.limits.answer)
        self.send_response(response.status)
        for name, value in response.headers.items():
            self.send_header(name, re.sub(r"[\r\n]", " ", str(value)))
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)
        self.wfile.flush()

    def __getattr__(self, name: str) -> Callable[[], None]:
        """Any method is the routes' affair, known or not."""
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def parse_request(self) -> bool:
        """Whether the head can be read. A line that is no header, as `Content-Length :` with its blank, is refused:
        another reader on the way might take it for one, and see another request.
        """
        if not super().parse_request():
            return False
        if self.headers.defects or self.headers.get_payload():
            self.send_error(400, "A line of the head is no header.")
            return False
        return True

    def _demand_own_host(self) -> None:
        """A page whose name was made to lead here (DNS rebinding) is not ours, and must not be served as ours."""
        named = self.headers.get_all("Host", [])
        host = re.sub(r":[0-9]*$", "", named[0].strip().lower()) if len(named) == 1 else ""
        if host not in self.server.hosts:
            raise Refusal(421, "misdirected_request", "This gateway has another name: start it with --host NAME.")

    def _read(self) -> Request:
        self._demand_own_host()
        length = body_length(self.headers.get_all("Content-Length", []), self.headers.get("Transfer-Encoding"))
        path, _, query = self.path.partition("?")
        headers: dict[str, str] = {}
        for name, value in self.headers.items():
            headers[name.lower()] = f"{headers[name.lower()]},{value}" if name.lower() in headers else value
        return Request(self.command, path, query, headers, self._body(length), self.client_address[0])

    def _body(self, length: int) -> bytes:
        self.reader.allow(self.server.limits.body)
        try:
            body = self.rfile.read(length)
        except TimeoutError:
            raise TOO_SLOW from None
        if len(body) < length:
            raise Refusal(400, "invalid_request", f"The body ended after {len(body)} of {length} bytes.")
        return body

    def log_error(self, format: str, *args: Any) -> None:  # noqa: A002, ARG002 (as the standard library calls it)
        """The standard library says so when a request did not come in time: tell the client too."""
        if not self.answered:
            self._send(_refused(TOO_SLOW))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the standard library cannot read."""
        self.close_connection = True
        self.request_version = self.protocol_version  # or a request of no version gets an answer without headers
        detail = message or explain or "The request cannot be read."
        self._send(_refused(Refusal(int(code), "invalid_request", detail)))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (named by the standard library)
        """Quiet: the functions log what matters."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512
    allow_reuse_address = True
    bindings: Sequence[Binding]
    limits: Limits
    room: Room
    hosts: frozenset[str]

    def process_request(self, request: Any, client_address: Any) -> None:
        """A thread for each connection, while there is room."""
        if self.room.enter(request):
            super().process_request(request, client_address)
            return
        response = _refused(NO_ROOM)
        head = f"HTTP/1.1 {response.status} Service Unavailable\r\nRetry-After: 1\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in response.headers.items())
        request.settimeout(1.0)
        with contextlib.suppress(OSError):
            request.sendall(f"{head}Content-Length: {len(response.body)}\r\n\r\n".encode() + response.body)
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.room.leave(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (as it is called)
        """A client that went away, or would not take its answer, is no fault of ours."""
        if not isinstance(sys.exception(), OSError):
            log.exception("connection failed", extra={"action": "connection_failed"})


class Gateway:
    """An HTTP server on the loopback, a thread for each connection; ended with the block that started it."""

    def __init__(
        self, bindings: Sequence[Binding], *, port: int = 0, limits: Limits | None = None, hosts: Iterable[str] = ()
    ) -> None:
        limits = limits or Limits()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.bindings = tuple(bindings)
        self._server.limits = limits
        self._server.hosts = LOOPBACK | {name.lower() for name in hosts}
        self._server.room = self.room = Room(limits.connections)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> Gateway:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> Gateway:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
