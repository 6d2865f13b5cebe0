"""An engine in a process of its own: started, awaited, ended with the block or the process that started it."""

from __future__ import annotations

import contextlib
import ctypes
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

READY_WITHIN_S = 60
STOPS_WITHIN_S = 10
PR_SET_PDEATHSIG = 1
#: Below the ports that Linux gives to outgoing connections (32768 and up), so that none of them takes a free one
#: between our look and the engine's start.
PORTS = range(20_000, 32_000)


class EngineMissing(Exception):
    """An engine cannot be started; says what to install."""


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    for port in random.sample(PORTS, 100):
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port
    raise EngineMissing(f"No free port between {PORTS.start} and {PORTS.stop}.")


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel end this process when the thread that started it dies, however it dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


class EngineProcess:
    """One process on the loopback interface. What kind it is, its `name`, `_start` and `_is_ready` say."""

    name = ""

    def __init__(self, *, port: int | None = None, log: Path | None = None) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = log  #: what the engine says is added to it
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> Self:
        """Returns once it answers. Raises EngineMissing."""
        self._process = self._start()
        self._wait_until_ready(self._process)
        return self

    def stop(self) -> None:
        process, self._process = self._process, None
        if process and process.poll() is None:
            process.terminate()
            try:
                process.wait(STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def kill(self) -> None:
        """As a power cut would."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def _start(self) -> subprocess.Popen[bytes]:
        raise NotImplementedError

    def _is_ready(self) -> bool:
        """Whether it answers. May raise OSError where it does not."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True

    def _run(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None, folder: Path | None = None
    ) -> subprocess.Popen[bytes]:
        with self._log.open("ab") if self._log else contextlib.nullcontext(subprocess.DEVNULL) as output:
            return subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < end:
            if process.poll() is not None:
                raise EngineMissing(f"{self.name} ended at once ({process.returncode}): is {self.port} taken?")
            with contextlib.suppress(OSError):
                if self._is_ready():
                    return
            time.sleep(0.05)
        self.stop()
        raise EngineMissing(f"{self.name} was not ready within {READY_WITHIN_S} s.")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
