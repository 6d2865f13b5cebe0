"""Clients of the local gateway that are slow, lie or never finish: let go in time, while others are served.

Nothing here waits by sleeping: every wait ends with an answer, the end of a connection, or a condition.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from infra.local.clients import MAX_BODY, Limits, PatientReader
from infra.local.gateway import Binding, Gateway, _Handler

BRIEF = 0.2
#: Longer than any test: what is served meanwhile is not served because somebody was let go.
LONG = 600.0
POST = b"POST /work HTTP/1.1\r\nHost: 127.0.0.1\r\n"


class Server:
    """A gateway before one function that counts its calls."""

    def __init__(self, limits: Limits, answer: str = "served") -> None:
        self.bodies: list[str] = []

        def function(event: dict[str, Any], _context: object) -> dict[str, Any]:
            self.bodies.append(event.get("body", ""))
            return {"statusCode": 200, "headers": {"Content-Type": "text/plain"}, "body": answer}

        self.gateway = Gateway([Binding("ANY /{proxy+}", function)], limits=limits)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.gateway.port), timeout=30)

    def exchange(self, sent: bytes, *, finish: bool = False) -> tuple[int, dict[str, Any] | str]:
        """Send these bytes and nothing more; the answer, once the server has ended the connection."""
        with self.connect() as client:
            client.sendall(sent)
            if finish:
                client.shutdown(socket.SHUT_WR)
            return read_answer(client)

    def is_serving(self) -> bool:
        status, body = self.exchange(
            POST + b"Content-Length: 2\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nok"
        )
        return (status, body) == (200, "served") and self.bodies[-1] == "ok"

    def be_patient(self) -> None:
        """Give the requests that follow all the time that they need: a busy machine is not a slow client."""
        self.gateway._server.limits = Limits(LONG, LONG, LONG, LONG)

    def wait_until_alone(self) -> None:
        """Until every connection is gone."""
        room = self.gateway.room
        with room.changed:
            assert room.changed.wait_for(lambda: len(room) == 0, timeout=30)


def read_answer(client: socket.socket) -> tuple[int, dict[str, Any] | str]:
    received = b""
    while chunk := client.recv(65_536):
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    if not head:
        return 0, ""
    problem = b"application/problem+json" in head
    return int(head.split()[1]), json.loads(body) if problem else body.decode()


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    with ExitStack() as running:

        def start(say: str = "served", **limits: Any) -> Server:
            given = {"idle": LONG, "head": LONG, "body": LONG, "answer": LONG, **limits}
            server = Server(Limits(**given), say)
            running.enter_context(server.gateway)
            return server

        yield start


#: Name, what is sent, whether the client then ends its side, limits, status, code. 0: closed without a word.
LIARS: tuple[tuple[str, bytes, bool, dict[str, float], int, str], ...] = (
    ("slow headers", b"POST /work HTTP/1.1\r\nHost:", False, {"head": BRIEF}, 408, "request_timeout"),
    ("a slow request line", b"POST /wo", False, {"head": BRIEF}, 408, "request_timeout"),
    ("headers that never end", POST + b"X: y\r\n" * 50, False, {"head": BRIEF}, 408, "request_timeout"),
    ("a slow body", POST + b"Content-Length: 100\r\n\r\nhalf", False, {"body": BRIEF}, 408, "request_timeout"),
    ("a body that never comes", POST + b"Content-Length: 100\r\n\r\n", False, {"body": BRIEF}, 408, "request_timeout"),
    ("nothing at all", b"", False, {"idle": BRIEF}, 0, ""),
    ("nothing, and the end", b"", True, {}, 0, ""),
    ("less body than said", POST + b"Content-Length: 100\r\n\r\nhalf", True, {}, 400, "invalid_request"),
    ("half a header, and the end", b"POST /work HTTP/1.1\r\nHost:", True, {}, 421, "misdirected_request"),
    ("a foreign host", b"POST /work HTTP/1.1\r\nHost: evil.example\r\n\r\n", True, {}, 421, "misdirected_request"),
    ("no host", b"POST /work HTTP/1.1\r\n\r\n", True, {}, 421, "misdirected_request"),
    ("two hosts", POST + b"Host: evil.example\r\n\r\n", True, {}, 421, "misdirected_request"),
    (
        "a host like ours",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n",
        True,
        {},
        421,
        "misdirected_request",
    ),
    ("a length with a blank", POST + b"Content-Length : 2\r\n\r\nok", True, {}, 400, "invalid_request"),
    ("chunks with a blank", POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", True, {}, 400, "invalid_request"),
    ("a line that is no header", POST + b"nothing at all\r\nX: y\r\n\r\n", True, {}, 400, "invalid_request"),
    ("two lengths", POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nxx", False, {}, 400, "invalid_request"),
    ("a negative length", POST + b"Content-Length: -1\r\n\r\n", False, {}, 400, "invalid_request"),
    ("a length with a sign", POST + b"Content-Length: +1\r\n\r\nx", False, {}, 400, "invalid_request"),
    ("a length in hex", POST + b"Content-Length: 0x1\r\n\r\nx", False, {}, 400, "invalid_request"),
    (
        "a length in other digits",
        POST + "Content-Length: ¹\r\n\r\nx".encode("latin-1"),
        False,
        {},
        400,
        "invalid_request",
    ),
    (
        "a length of 5,000 digits",
        POST + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n",
        False,
        {},
        400,
        "invalid_request",
    ),
    ("more than 10 MB", POST + b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1), False, {}, 413, "body_too_large"),
    ("chunks", POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", False, {}, 411, "length_required"),
    ("chunks without end", POST + b"Transfer-Encoding: chunked\r\n\r\nffffffff\r\n", False, {}, 411, "length_required"),
    (
        "chunks and a length",
        POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        False,
        {},
        411,
        "length_required",
    ),
    ("chunks by another name", POST + b"Transfer-Encoding: xchunked\r\n\r\n", False, {}, 411, "length_required"),
    ("a path of 70,000 characters", b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", True, {}, 414, "invalid_request"),
    ("a header of 70,000 characters", POST + b"X: " + b"y" * 70_000 + b"\r\n\r\n", True, {}, 431, "invalid_request"),
    (
        "200 headers",
        POST + b"".join(b"X-%d: y\r\n" % n for n in range(200)) + b"\r\n",
        True,
        {},
        431,
        "invalid_request",
    ),
    ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", True, {}, 400, "invalid_request"),
    ("HTTP of another age", b"GET / HTTP/9.9\r\n\r\n", True, {}, 505, "invalid_request"),
)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8080", "LOCALHOST", "[::1]:1", "mill.tunnel.example"])
def test_its_own_names_are_served_and_one_that_it_was_given(host: str) -> None:
    function = {"statusCode": 200, "body": "served"}
    bindings = [Binding("ANY /{proxy+}", lambda _event, _context: function)]
    with (
        Gateway(bindings, hosts=["Mill.tunnel.example"]) as gateway,
        socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as client,
    ):
        client.sendall(f"GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert read_answer(client) == (200, "served")


@pytest.mark.parametrize(("name", "sent", "finish", "limits", "status", "code"), LIARS, ids=[liar[0] for liar in LIARS])
def test_a_client_that_is_slow_or_lies_is_answered_and_let_go(
    serve: Callable[..., Server], name: str, sent: bytes, finish: bool, limits: dict[str, float], status: int, code: str
) -> None:
    server = serve(**limits)
    told = server.exchange(sent, finish=finish)
    assert told[0] == status, told
    if code:
        assert isinstance(told[1], dict)
        assert (told[1]["code"], told[1]["status"]) == (code, status)
        assert server.bodies == [], "a function was asked about it"
    server.be_patient()
    assert server.is_serving()


def test_what_follows_a_body_longer_than_said_is_not_taken_for_a_request(serve: Callable[..., Server]) -> None:
    server = serve()
    with server.connect() as client:
        client.sendall(POST + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nok<script>\r\n\r\n")
        received = b"".join(iter(lambda: client.recv(65_536), b""))
    assert received.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 400" in received
    assert server.bodies == ["ok"]


def test_others_are_served_while_slow_clients_hang(serve: Callable[..., Server]) -> None:
    server = serve()
    with ExitStack() as hanging:
        for sent in (b"", b"POST", POST, POST + b"Content-Length: 9\r\n\r\nhalf") * 5:
            hanging.enter_context(server.connect()).sendall(sent)
        assert server.is_serving()
    server.wait_until_alone()


def test_idle_connections_make_way(serve: Callable[..., Server]) -> None:
    server = serve(connections=8)
    room = server.gateway.room
    with ExitStack() as hanging:
        idle = [hanging.enter_context(server.connect()) for _ in range(8)]
        with room.changed:
            assert room.changed.wait_for(lambda: len(room._idle) == 8, timeout=30)
        assert server.is_serving()
        assert idle[0].recv(1) == b"", "the one that was idle for longest is let go"


def test_where_all_connections_are_busy_another_is_refused(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(connections=2)
    reading = threading.Semaphore(0)
    read_body = _Handler._body

    def busy_body(handler: _Handler, length: int) -> bytes:
        reading.release()
        return read_body(handler, length)

    monkeypatch.setattr(_Handler, "_body", busy_body)
    with ExitStack() as hanging:
        busy = [hanging.enter_context(server.connect()) for _ in range(2)]
        for client in busy:
            client.sendall(POST + b"Content-Length: 9\r\n\r\nhalf")
            assert reading.acquire(timeout=30), "it waits for the rest of the body, and is not idle"
        status, problem = read_answer(hanging.enter_context(server.connect()))
        assert status == 503
        assert isinstance(problem, dict)
        assert problem["code"] == "too_many_connections"
        for client in busy:
            client.shutdown(socket.SHUT_WR)
        assert [read_answer(client)[0] for client in busy] == [400, 400]
    server.wait_until_alone()
    assert server.is_serving()


def test_a_client_that_does_not_take_its_answer_is_let_go(serve: Callable[..., Server]) -> None:
    server = serve("x" * 9_000_000, answer=BRIEF)
    with server.connect() as client:
        client.sendall(POST + b"Content-Length: 0\r\n\r\n")
        assert client.recv(1)
        server.wait_until_alone()


def test_dripping_bytes_gain_no_time() -> None:
    """A byte in time, again and again: the whole has to come in time."""
    ours, theirs = socket.socketpair()
    clock = iter(range(1_000))
    with ours, theirs:
        reader = PatientReader(ours, lambda: float(next(clock)))
        reader.allow(10)
        theirs.sendall(b"x" * 100)
        for _ in range(9):
            assert reader.readinto(memoryview(bytearray(1))) == 1
        with pytest.raises(TimeoutError):
            reader.readinto(memoryview(bytearray(1)))
