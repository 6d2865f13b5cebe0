"""Lambda functions under AWS's own bootstrap (`awslambdaric`), without a container.

Each sandbox is a process with a Runtime API server of its own, as in Lambda: one event at a time, ended when it is too
late. A function has as many sandboxes as it has had calls at the same time. `InvokeApi` lets functions call each other.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import IO, Any

from infra.local.dynamodb import REGION, ROOT
from millrace.app.bundle import python_path

Event = Mapping[str, Any]
#: A bootstrap that has not asked for its first event by then has failed.
START_S = 30
STOP_S = 5


class InvocationFailed(Exception):
    """A function raised, ended or took too long."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, answer: Callable[[_Request], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.answer = answer
        self.address = f"127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet for each answer, or a warm call takes 88 ms
    server: _Server

    def setup(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().setup()

    def _answer(self) -> None:
        self.server.answer(self)

    do_GET = do_POST = _answer  # noqa: N815

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def send(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (named by the standard library)
        """Quiet: the functions log what matters."""


class _Sandbox:
    """One process of a function."""

    def __init__(self, function: LambdaFunction) -> None:
        self._function = function
        self._events: queue.Queue[tuple[str, bytes, int] | None] = queue.Queue()
        self._answer: Future[Any] = Future()
        self._server = _Server(self._serve)
        environment = {**function.environment, "AWS_LAMBDA_RUNTIME_API": self._server.address}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "awslambdaric", function.handler],
            cwd=ROOT,
            env=environment,
            stdout=function.log,
            stderr=function.log,
            start_new_session=True,
        )

    def run(self, event: Event) -> Any:
        """Hand over one event and wait for its answer. Raises InvocationFailed."""
        self._answer = Future()
        deadline = time.time() + self._function.timeout_s
        self._events.put((str(uuid.uuid4()), json.dumps(event).encode(), int(deadline * 1000)))
        try:
            return self._answer.result(self._function.timeout_s + START_S)
        except TooLate:
            self.stop()
            raise InvocationFailed(f"{self._function.name} took longer than {self._function.timeout_s} s.") from None

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        self._events.put(None)
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._server.close()

    def _serve(self, request: _Request) -> None:
        """The Runtime API: next, response, error."""
        if request.path.endswith("/invocation/next"):
            self._next(request)
            return
        body = request.body()
        request.send(202)
        if request.path.endswith("/response"):
            self._answer.set_result(json.loads(body) if body else None)
        elif request.path.endswith("/error") and not self._answer.done():
            self._answer.set_exception(
                InvocationFailed(f"{self._function.name}: {body[:500].decode(errors='replace')}")
            )

    def _next(self, request: _Request) -> None:
        found = self._events.get()
        if found is None:
            request.send(410)
            return
        identity, body, deadline = found
        arn = f"arn:aws:lambda:{REGION}:000000000000:function:{self._function.name}"
        headers = {
            "Lambda-Runtime-Aws-Request-Id": identity,
            "Lambda-Runtime-Deadline-Ms": str(deadline),
            "Lambda-Runtime-Invoked-Function-Arn": arn,
            "Lambda-Runtime-Trace-Id": "Root=1-00000000-000000000000000000000000;Sampled=0",
        }
        request.send(200, body, headers)


class LambdaFunction:
    """A function and its sandboxes; call it as a handler is called."""

    def __init__(
        self, name: str, handler: str, environment: Mapping[str, str], timeout_s: int, log: IO[bytes], most: int = 8
    ) -> None:
        self.name = name
        self.handler = handler
        self.timeout_s = timeout_s
        self.log = log
        self.environment = {
            **{kept: os.environ[kept] for kept in ("PATH", "HOME", "LANG", "TZ") if kept in os.environ},
            **environment,
            "AWS_LAMBDA_FUNCTION_NAME": name,
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
            "LAMBDA_TASK_ROOT": str(ROOT),
            "PYTHONPATH": os.environ.get("PYTHONPATH", os.pathsep.join(python_path())),
            "_HANDLER": handler,
        }
        self._room = threading.Semaphore(most)
        self._idle: list[_Sandbox] = []
        self._all: list[_Sandbox] = []
        self._lock = threading.Lock()

    def __call__(self, event: Event, _context: object = None) -> Any:
        with self._room:
            sandbox = self._take()
            try:
                return sandbox.run(event)
            finally:
                with self._lock:
                    if sandbox.alive:
                        self._idle.append(sandbox)

    def _take(self) -> _Sandbox:
        with self._lock:
            while self._idle:
                sandbox = self._idle.pop()
                if sandbox.alive:
                    return sandbox
            sandbox = _Sandbox(self)
            self._all.append(sandbox)
            return sandbox

    def stop(self) -> None:
        for sandbox in self._all:
            sandbox.stop()


class InvokeApi:
    """Lambda's Invoke over HTTP, for functions that call functions: AWS_ENDPOINT_URL_LAMBDA."""

    def __init__(self) -> None:
        self.functions: dict[str, LambdaFunction] = {}
        self._pool = ThreadPoolExecutor(16, thread_name_prefix="invoke")
        self._server = _Server(self._serve)
        self.url = f"http://{self._server.address}"

    def _serve(self, request: _Request) -> None:
        name = request.path.split("/")[3] if request.path.count("/") >= 4 else ""
        event = json.loads(request.body() or b"{}")
        function = self.functions.get(name)
        if function is None:
            request.send(404, b'{"Type": "User", "Message": "no such function"}')
        elif request.headers.get("X-Amz-Invocation-Type") == "Event":
            self._pool.submit(function, event)
            request.send(202)
        else:
            self._answered(request, function, event)

    def _answered(self, request: _Request, function: LambdaFunction, event: Event) -> None:
        try:
            request.send(200, json.dumps(function(event)).encode())
        except InvocationFailed as failed:
            text = json.dumps({"errorType": "InvocationFailed", "errorMessage": str(failed)})
            request.send(200, text.encode(), {"X-Amz-Function-Error": "Unhandled"})

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._server.close()
