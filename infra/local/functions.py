"""The process of the gateway and the functions, for whoever starts, stops and restarts it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable

from infra.local.dynamodb import ROOT
from infra.local.places import Places
from millrace.app.registered import app_path

READY_S = 60
STOP_S = 20


class CannotRun(Exception):
    """The stack cannot be started; says what to do."""


class Functions:
    """The process of the gateway and the functions (`app.py`), which a reload replaces."""

    def __init__(self, places: Places, port: int, *, under_lambda: bool, hosts: Iterable[str] = ()) -> None:
        self._places = places
        self._port = port
        self._command = [
            sys.executable,
            "-m",
            "infra.local.app",
            "--app",
            str(places.app.root),
            "--home",
            str(places.home),
            "--port",
            str(port),
        ]
        self._command += ["--dynamodb", places.dynamodb_url, "--s3", places.s3_url]
        self._command += ["--lambda"] if under_lambda else []
        self._command += [word for name in hosts for word in ("--host", name)]
        self.log = places.home / "functions.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers. Raises CannotRun with the end of its log."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= {
            "PYTHONPATH": app_path(self._places.app, os.environ),
            "PYTHONUNBUFFERED": "1",
            **self._places.credentials,
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        end = time.monotonic() + READY_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                tail = "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-12:])
                raise CannotRun(f"The functions did not start. The end of {self.log}:\n{tail}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            time.sleep(0.05)
        raise CannotRun(f"The functions were not ready within {READY_S} s; see {self.log}.")

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def __enter__(self) -> Functions:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
