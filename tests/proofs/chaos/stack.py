"""The processes of the chaos run: the local stack's own, each started again when it dies, all ended by their pid."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from infra.local.dynamodb import CREDENTIALS, REGION, ROOT, DynamoDbLocal
from infra.local.engine_process import EngineMissing, end_with_parent, free_port
from infra.local.places import RESOURCES
from millrace.definitions.language.compiler import compile_files
from millrace.stores.dynamodb.client import TableNames

NAMES = TableNames(RESOURCES["QueueTable"], RESOURCES["DeadLetterTable"])
TENANT = "chaos"
SECRET = "whsec_" + "Y2hhb3MtcnVuLXNlY3JldC1jaGFvcy1ydW4="
READY_S = 90.0
DUMB_S = 20.0
LOOK_S = 0.1


class StackFailed(Exception):
    """A process of the stack does not come up."""


class Role:
    """One process and its successors. Every life has a log of its own: the history is in it."""

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str], logs: Path) -> None:
        self.name, self.command, self.environment, self.logs = name, command, environment, logs
        self.lives = 0
        self.deaths = 0  #: by itself
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = threading.Lock()

    def keep_up(self) -> None:
        """Start it where it does not run."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            self.deaths += self._process is not None and self._process.returncode != -signal.SIGKILL
            self.lives += 1
            self._stopped = False
            with (self.logs / f"{self.name}.{self.lives}.log").open("wb") as log:
                self._process = subprocess.Popen(
                    self.command,
                    cwd=ROOT,
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    # With SIGKILL: a stopped process would not heed another one.
                    preexec_fn=partial(end_with_parent, signal.SIGKILL) if sys.platform == "linux" else None,
                )

    def signal(self, number: signal.Signals) -> bool:
        """Send a signal to the process, if there is one."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                return False
            if number in (signal.SIGSTOP, signal.SIGCONT):
                self._stopped = number is signal.SIGSTOP
            self._process.send_signal(number)
            return True

    @property
    def stopped(self) -> bool:
        return self._stopped

    def end(self, *, within_s: float = 0.0) -> None:
        """In order where there is time for it, else at once."""
        with self._lock:
            process = self._process
            if process is None or process.poll() is not None:
                return
            process.send_signal(signal.SIGCONT)
            if within_s:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(within_s)
            process.kill()
            process.wait()


class Engine:
    """DynamoDB Local on disk, started again a while after it was killed.

    One thread starts it and stays: the kernel ends a process that asked for it with the thread that started it.
    """

    def __init__(self, data: Path) -> None:
        self._engine = DynamoDbLocal(data=data, log=data.with_suffix(".txt"))
        self.url, self.port = self._engine.url, self._engine.port
        self._up = threading.Event()
        self._over = threading.Event()
        self._restart_at = 0.0
        self._up_since = 0.0
        self._failed: EngineMissing | None = None
        self._thread = threading.Thread(target=self._keep_up, name="engine", daemon=True)

    def __enter__(self) -> Engine:
        self._thread.start()
        self.wait_until_up()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def wait_until_up(self) -> None:
        """Raises StackFailed."""
        if not self._up.wait(READY_S) or self._failed:
            raise StackFailed(str(self._failed or "DynamoDB Local does not come up"))

    def kill(self, missing_s: float) -> bool:
        """With SIGKILL, for so long; False while it is down anyway."""
        if not self._up.is_set():
            return False
        self._restart_at = time.monotonic() + missing_s
        self._engine.kill()
        self._up.clear()
        return True

    def dumb(self, heard_at: float) -> bool:
        """Whether it runs and has done nothing for a long while.

        DynamoDB Local, started on the files of one that was killed, now and then answers every request with 500 until
        it is started again. Its files are whole.
        """
        return self._up.is_set() and time.monotonic() - max(heard_at, self._up_since) > DUMB_S

    def _keep_up(self) -> None:
        while not self._over.wait(0.02):
            if not self._up.is_set() and time.monotonic() >= self._restart_at:
                try:
                    self._engine.start()
                except EngineMissing as error:
                    self._failed = error
                self._up_since = time.monotonic()
                self._up.set()
        self._engine.stop()


class Stack:
    """Gateways with the functions, and workers."""

    def __init__(self, home: Path, *, workers: int, ingresses: int, engine_url: str) -> None:
        self.logs = home / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.definitions = _compiled(home)
        self.ports = [free_port() for _ in range(ingresses)]
        environment = _environment(self.definitions, engine_url)
        self.workers = [
            Role(f"worker{n}", _python("functions.worker", "--tenant", TENANT), environment, self.logs)
            for n in range(workers)
        ]
        self.ingresses = [
            Role(f"ingress{n}", _app(home / f"app{n}", port, engine_url, environment), environment, self.logs)
            for n, port in enumerate(self.ports)
        ]
        self._ending = threading.Event()
        self._supervisor = threading.Thread(target=self._keep_up, name="supervisor", daemon=True)

    @property
    def roles(self) -> list[Role]:
        return [*self.ingresses, *self.workers]

    def start(self) -> None:
        """Up and answering. Raises StackFailed."""
        self._supervisor.start()
        end = time.monotonic() + READY_S
        for port in self.ports:
            while not _listens(port):
                if time.monotonic() > end:
                    raise StackFailed(f"no gateway on {port} within {READY_S} s; see {self.logs}")
                time.sleep(LOOK_S)

    def _keep_up(self) -> None:
        while not self._ending.is_set():
            for role in self.roles:
                role.keep_up()
            self._ending.wait(LOOK_S)

    def end(self, *, within_s: float = 0.0) -> None:
        """Everything that was started here ends: by its pid, stopped or not."""
        self._ending.set()
        if self._supervisor.is_alive():
            self._supervisor.join()
        for role in self.roles:
            role.end(within_s=within_s)


def _python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", module, *arguments]


def _app(home: Path, port: int, engine_url: str, environment: Mapping[str, str]) -> list[str]:
    """The local stack's own process: the gateway, every function, the stream, the schedule. No body is large enough
    for S3."""
    places = [
        "--app",
        str(home),
        "--home",
        str(home),
        "--port",
        str(port),
        "--dynamodb",
        engine_url,
        "--s3",
        "http://127.0.0.1:9",
    ]
    given = [f"--set={name}={environment[name]}" for name in ("DEFINITIONS", "COMMANDS", "POWERTOOLS_LOG_LEVEL")]
    return _python("infra.local.app", *places, *given)


def _compiled(home: Path) -> Path:
    source = Path(__file__).parent / "chaos.millrace"
    path = home / "definitions.json"
    path.write_text(compile_files([(source.name, source.read_bytes())]).text)
    return path


def _environment(definitions: Path, engine_url: str) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        **CREDENTIALS,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_DYNAMODB": engine_url,
        "QUEUE_TABLE": NAMES.queue,
        "DEAD_LETTER_TABLE": NAMES.dead_letters,
        "BODY_BUCKET": "none",
        "DEFINITIONS": str(definitions),
        "COMMANDS": "tests.proofs.chaos.commands",
        "CHAOS_SECRET": SECRET,
        "LOG_HISTORY": "1",
        "POWERTOOLS_LOG_LEVEL": "WARNING",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": f"{ROOT / 'shared'}{os.pathsep}{ROOT}",
    }


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
