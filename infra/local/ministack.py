"""Running MiniStack: a second, independent implementation of AWS's services, in an environment of its own.

It pins botocore, so it cannot share `.venv`: `make ministack` makes `.venv-ministack` from its own lock.

with MiniStack() as stack:              # in memory, gone with the process
    client = dynamodb_client(endpoint_url=stack.url, region=REGION)
"""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from infra.local.dynamodb import CREDENTIALS, REGION, ROOT
from infra.local.engine_process import EngineMissing, EngineProcess
from millrace.app.bundle import tool_folder

LOCK = ROOT / "infra" / "locks" / "ministack.txt"
FOLDER = tool_folder("ministack", LOCK)


def find_ministack() -> Path:
    program = FOLDER / "bin" / "ministack"
    if not program.exists():
        raise EngineMissing("MiniStack is not there: `millrace dev` downloads it, in a checkout `make ministack`.")
    return program


class MiniStack(EngineProcess):
    """All services, or those named; in memory, but for S3's objects and KMS's keys where `objects` and `keys` name
    folders.

    With an access key it answers only who signs with it, and no web page; `urls` are the credentials of presigned URLs.
    """

    name = "MiniStack"

    def __init__(
        self,
        *,
        port: int | None = None,
        services: tuple[str, ...] = (),
        log: Path | None = None,
        objects: Path | None = None,
        keys: Path | None = None,
        access_key: str = "",
        urls: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(port=port, log=log)
        self._services = services
        self._objects = objects
        self._keys = keys
        self._access_key = access_key
        self._urls = dict(urls or {})

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        environment |= CREDENTIALS
        environment |= {"GATEWAY_PORT": str(self.port), "BIND_HOST": "127.0.0.1", "MINISTACK_REGION": REGION}
        environment |= {"LOG_LEVEL": "WARNING", "SERVICES": ",".join(self._services)}
        if self._objects:
            environment |= {"S3_PERSIST": "1", "S3_DATA_DIR": str(self._objects.resolve())}
        if self._keys:
            environment |= {"PERSIST_STATE": "1", "STATE_DIR": str(self._keys.resolve())}
        command = [str(find_ministack())]
        if self._access_key:
            environment |= {"STACK_ACCESS_KEY": self._access_key, **self._urls}
            guard = Path(__file__).with_name("guarded_ministack.py")
            command = [str(find_ministack().with_name("python")), "-P", str(guard)]
        return self._run(command, environment=environment)

    def _is_ready(self) -> bool:
        urllib.request.urlopen(f"{self.url}/_ministack/health", timeout=1).close()  # noqa: S310 (loopback)
        return True


if __name__ == "__main__":
    sys.stdout.write(f"{find_ministack()}\n")
