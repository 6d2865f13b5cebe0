"""Running MiniStack: a second, independent implementation of AWS's services, in an environment of its own.

It pins botocore, so it cannot share `.venv`: `make ministack` makes `.venv-ministack` from its own lock.

with MiniStack() as stack:              # in memory, gone with the process
    client = dynamodb_client(endpoint_url=stack.url, region=REGION)
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

from infra.local.dynamodb import CREDENTIALS, REGION, ROOT, EngineMissing, free_port

READY_WITHIN_S = 60


def find_ministack() -> Path:
    program = ROOT / ".venv-ministack" / "bin" / "ministack"
    if not program.exists():
        raise EngineMissing("MiniStack is not there: run `make ministack` (it makes .venv-ministack from its lock).")
    return program


class MiniStack:
    """One MiniStack process on the loopback interface, ended with the block that started it."""

    def __init__(
        self,
        *,
        port: int | None = None,
        services: tuple[str, ...] = (),
        log: Path | None = None,
        objects: Path | None = None,
    ) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._services = services  #: all of them when empty
        self._log = log
        self._objects = objects  #: where S3 keeps its objects over a restart; in memory when None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> MiniStack:
        program = find_ministack()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= CREDENTIALS
        environment |= {"GATEWAY_PORT": str(self.port), "BIND_HOST": "127.0.0.1", "MINISTACK_REGION": REGION}
        environment |= {"LOG_LEVEL": "WARNING", "SERVICES": ",".join(self._services)}
        if self._objects:
            environment |= {"S3_PERSIST": "1", "S3_DATA_DIR": str(self._objects.resolve())}
        with self._log.open("wb") if self._log else contextlib.nullcontext(subprocess.DEVNULL) as output:
            self._process = subprocess.Popen(
                [str(program)], env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
        self._wait_until_ready()
        return self

    def _wait_until_ready(self) -> None:
        assert self._process is not None  # noqa: S101
        end = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise EngineMissing(f"MiniStack ended at once ({self._process.returncode}): is {self.port} taken?")
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"{self.url}/_ministack/health", timeout=1).close()  # noqa: S310 (loopback)
                return
            time.sleep(0.05)
        self.stop()
        raise EngineMissing(f"MiniStack was not ready within {READY_WITHIN_S} s.")

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def __enter__(self) -> MiniStack:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


if __name__ == "__main__":
    sys.stdout.write(f"{find_ministack()}\n")
