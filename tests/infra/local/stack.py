"""The local stack as a person starts it: a process, its output, and Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.local.dynamodb import ROOT
from infra.local.tour import call
from millrace.model.clock import system_clock
from millrace.signatures import Secret
from millrace.signatures.presets import scheme_from
from millrace.signatures.signing import deliver

PATIENCE_S = 180


class Stack:
    """One run of `millrace dev` on free ports."""

    def __init__(self, home: Path, *options: str, app: Path = ROOT / "infra" / "example") -> None:
        self.home = home
        self.seen = ""
        ports = ["--port", "0", "--dynamodb-port", "0", "--s3-port", "0"]
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "millrace.cli",
                "dev",
                "--app",
                str(app),
                "--tour",
                "--home",
                str(home),
                *ports,
                *options,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, text: str) -> None:
        """Read on until the text appears."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen += line
            if text in line:
                return
        raise AssertionError(f"{text!r} never came:\n{self.seen}\n{self.log()}")

    def log(self) -> str:
        path = self.home / "functions.log"
        return "\n".join(path.read_text("utf-8").splitlines()[-30:]) if path.exists() else ""

    @property
    def url(self) -> str:
        found = re.search(r"API +(http://\S+)", self.seen)
        assert found, self.seen
        return found[1]

    @property
    def token(self) -> str:
        return (self.home / "token").read_text("utf-8").strip()

    def send(self, incident: dict[str, Any], more: Mapping[str, str] | None = None) -> tuple[int, Any]:
        secret = json.loads((self.home / "secrets.json").read_text("utf-8"))["PAGERDUTY_WEBHOOK_SECRET"]
        target = f"{self.url}/hook/PagerDutyAlert"
        body = json.dumps({"event": {"event_type": "incident.triggered", "data": incident}}).encode()
        request = deliver(scheme_from({"provider": "pagerduty"}), Secret("s", secret), target, body, system_clock())
        headers = {name: request.headers.one(name) for name in request.headers}
        return call("POST", target, {**headers, **(more or {})}, body)

    def get(self, path: str) -> tuple[int, Any]:
        return call("GET", self.url + path, {"authorization": f"Bearer {self.token}"})

    def post(self, path: str, document: Any, more: Mapping[str, str] | None = None) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json", **(more or {})}
        return call("POST", self.url + path, headers, json.dumps(document).encode())

    def await_done(self, message_id: str) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            answer: dict[str, Any]
            status, answer = self.get(f"/v1/queues/WebhookIngress/messages/{message_id}")
            if status == 200 and answer["status"] == "done" and answer["finished_at"]:
                return answer
            time.sleep(0.05)
        raise AssertionError(f"{message_id} is not done: {answer}\n{self.log()}")

    def stop(self) -> str:
        """Ctrl-C, and the rest of what it says."""
        self.process.send_signal(signal.SIGINT)
        rest, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, rest
        return rest

    def end(self) -> None:
        """For a test that failed: nothing may stay behind."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()


def descendants(pid: int) -> set[int]:
    """Every process below one, as Linux has them."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
    found: set[int] = set()
    level = {pid}
    while level:
        level = {child for child, parent in parents.items() if parent in level} - found
        found |= level
    return found


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
