"""A proxy in front of DynamoDB Local: batches whose answer is lost, throttling, clients killed in mid-request."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Literal
from urllib.parse import urlsplit

BatchFault = Literal["works", "lost", "cut", "throttled", "some throttled", "kill"]
#: Says what becomes of the n-th batch of writes: applied with a 500 for an answer (lost) or with the connection cut.
Plan = Callable[[int, list[dict[str, Any]]], BatchFault]
THROTTLED = {"Code": "ProvisionedThroughputExceeded", "Message": "slow down"}


class FaultyEngine:
    """Only batches of writes fail; all else goes through."""

    def __init__(self, engine_url: str, plan: Plan) -> None:
        self.done: Counter[str] = Counter()
        self.killed: list[int] = []
        self._kills_owed = False
        self.batches = 0
        self._plan = plan
        self._target = urlsplit(engine_url)
        self._lock = threading.Lock()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                engine.serve(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> FaultyEngine:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self, request: BaseHTTPRequestHandler) -> None:
        body = request.rfile.read(int(request.headers["Content-Length"]))
        fault: BatchFault = "works"
        statements: list[dict[str, Any]] = []
        if request.headers["X-Amz-Target"].endswith("BatchExecuteStatement"):
            statements = json.loads(body)["Statements"]
            with self._lock:
                self.batches += 1
                fault = self._plan(self.batches, statements)
                if fault == "kill" or self._kills_owed:
                    fault = "kill"
                    self._kill_client(request)
                self.done[fault] += 1
        if fault == "kill":
            return
        if fault == "throttled":
            answer = {"__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}
            _answer(request, 400, json.dumps(answer).encode())
            return
        if fault == "some throttled":
            self._throttle_some(request, statements)
            return
        status, answer_body = self._forward(request, body)
        if fault == "lost":
            _answer(request, 500, b'{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}')
        elif fault == "cut":
            request.close_connection = True
        else:
            _answer(request, status, answer_body)

    def _throttle_some(self, request: BaseHTTPRequestHandler, statements: list[dict[str, Any]]) -> None:
        """Every second statement is throttled, the others are applied: the answer is 200 all the same."""
        status, answer = self._forward(request, json.dumps({"Statements": statements[::2]}).encode())
        parts = iter(json.loads(answer)["Responses"])
        mixed = [next(parts) if n % 2 == 0 else {"Error": THROTTLED} for n in range(len(statements))]
        _answer(request, status, json.dumps({"Responses": mixed}).encode())

    def _forward(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        connection = HTTPConnection(str(self._target.hostname), self._target.port, timeout=30)
        try:
            names = ("X-Amz-Target", "Content-Type", "Authorization", "X-Amz-Date")
            headers = {name: request.headers[name] for name in names if name in request.headers}
            connection.request("POST", "/", body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _kill_client(self, request: BaseHTTPRequestHandler) -> None:
        """End the process at the other end of this connection, as the kernel does when memory runs out."""
        request.close_connection = True
        try:
            pid = owner_of_port(request.client_address[1])
        except LookupError:
            # A request of a process that an earlier kill has ended: the next one is for a living one.
            self._kills_owed = True
            return
        os.kill(pid, signal.SIGKILL)
        self.killed.append(pid)
        self._kills_owed = False


def _answer(request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    request.send_response(status)
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def owner_of_port(port: int) -> int:
    """The process that holds the client's end of a loopback connection."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].split(":")[1], 16) == port:
            socket = f"socket:[{fields[9]}]"
            for link in Path("/proc").glob("[0-9]*/fd/*"):
                try:
                    if str(link.readlink()) == socket:
                        return int(link.parts[2])
                except OSError:
                    continue
    raise LookupError(f"nobody holds port {port}")
