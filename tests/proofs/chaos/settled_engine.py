"""DynamoDB Local behind a proxy that passes on no answer which a SIGKILL could still take back.

DynamoDB Local on disk answers a TransactWriteItems when its COMMIT is queued, not when it is done: killed in between,
it forgets what it has acknowledged (`python -m tests.proofs.chaos.engine_loss` shows it). AWS's DynamoDB does not. All
its work goes through one queue in order, so once a read that was sent after the answer is answered too, the commit is
on the disk. The proxy makes that read before it passes a transaction's answer on; where the engine dies first, the
caller gets no answer at all, as from any server that dies.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from infra.local.dynamodb import CREDENTIALS, REGION

TRANSACTION = "TransactWriteItems"
TIMEOUT_S = 30.0
#: Of the caller's headers these are the engine's affair.
PASSED_ON = ("x-amz-target", "content-type", "authorization", "x-amz-date")
_SIGNED = f"AWS4-HMAC-SHA256 Credential={CREDENTIALS['AWS_ACCESS_KEY_ID']}/20260101/{REGION}/dynamodb/aws4_request"
_BARRIER_HEADERS = {
    "X-Amz-Target": "DynamoDB_20120810.GetItem",
    "Content-Type": "application/x-amz-json-1.0",
    "Authorization": f"{_SIGNED}, SignedHeaders=host, Signature=0",
    "X-Amz-Date": "20260101T000000Z",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True
    timeout = 120
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.upstream = http.client.HTTPConnection("127.0.0.1", self.server.engine_port, timeout=TIMEOUT_S)

    def finish(self) -> None:
        self.upstream.close()
        with contextlib.suppress(OSError):
            super().finish()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        headers = {name: self.headers[name] for name in PASSED_ON if name in self.headers}
        try:
            status, answered, data = self._ask(body, headers)
            if TRANSACTION in headers.get("x-amz-target", "") and status == 200:
                self._wait_for_commit()
        except (OSError, http.client.HTTPException):
            # The engine is dead: whatever it was about to say, nobody hears it.
            self.close_connection = True
            self.upstream.close()
            return
        self.send_response(status)
        for name, value in answered:
            if name.lower() not in ("content-length", "connection", "date", "server", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _ask(self, body: bytes, headers: dict[str, str]) -> tuple[int, list[tuple[str, str]], bytes]:
        self.upstream.request("POST", "/", body, headers)
        answer = self.upstream.getresponse()
        return answer.status, answer.getheaders(), answer.read()

    def _wait_for_commit(self) -> None:
        key = {name: {"S": "BARRIER"} for name in self.server.keys}
        asked = json.dumps({"TableName": self.server.table, "Key": key, "ConsistentRead": True}).encode()
        if self._ask(asked, _BARRIER_HEADERS)[0] != 200:
            raise http.client.HTTPException("the read that shows the commit was refused")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (named by the standard library)
        """Quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256
    engine_port: int
    table: str
    keys: tuple[str, ...]

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller was killed in the middle of its request: that is what this is about."""


class SettledEngine:
    """The proxy, on a port of its own as long as its block lasts."""

    def __init__(self, engine_port: int, table: str, keys: tuple[str, ...] = ("pk",)) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.engine_port, self._server.table, self._server.keys = engine_port, table, keys
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> SettledEngine:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
