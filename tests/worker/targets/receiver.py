"""An endpoint on this machine, and a queue whose messages are posted to it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from millrace.signatures import SecretSource
from millrace.worker.targets.http import HttpDelivery, HttpSettings
from tests.conftest import Bench
from tests.worker.definitions import TYPE
from tests.worker.rigs import TargetRig

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Receiver:
    """An endpoint on this machine that answers as the test asks."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], bytes]] = []
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                receiver.connections += 1
                super().setup()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.requests.append((self.path, {k.lower(): v for k, v in self.headers.items()}, body))
                status, headers, content = receiver.answers.pop(0) if receiver.answers else (200, {}, b"")
                self.send_response(status)
                for name, value in {"content-length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def http_rig(
    bench: Bench, receiver: Receiver, options: str = "", secrets: Mapping[str, str] | None = None, **settings: Any
) -> TargetRig:
    given = HttpSettings(**{"signing": ("env:OUT",), "allow_loopback": True, **settings})
    delivery = HttpDelivery(given, SecretSource(bench.clock, environ={"OUT": SECRET, **(secrets or {})}))
    queues = f"""queue Jobs {{ {TYPE}
      delivery {{ max_attempts: 3  initial_backoff_ms: 1000  backoff: none }}
      map_to: http "{receiver.url}" {options} {{ number: n }} }}"""
    return TargetRig(bench, queues, http=delivery)
