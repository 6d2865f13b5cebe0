"""`python -m tests.performance.hops [--root CHECKOUT]`: how many files a message crosses on its way in and out.

One webhook goes through the ingress's handler and one message through the worker's, both as deployed, on DynamoDB
Local; each after a first one that built what a process shares. A profile hook notes the file of every call into the
project: `files` are those entered, `changes` how often the next call is in another one. Another checkout is measured
the same way: nothing of it is used but its two handlers, its tables and its sample event.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

from infra.local.dynamodb import CREDENTIALS, REGION, DynamoDbLocal

ROOT = Path(__file__).resolve().parents[2]
QUEUE = "RepositoryEvents"


class Trace:
    """The files that calls enter, thread by thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._inside = tuple(f"{root / part}{os.sep}" for part in ("shared/millrace", "functions"))
        self._entered: dict[int, list[str]] = defaultdict(list)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_name != "<module>" and code.co_filename.startswith(self._inside):
            self._entered[threading.get_ident()].append(code.co_filename)

    def of(self, work: Callable[[], Any]) -> dict[str, Any]:
        """What the work answered, and the files and changes of file that it took."""
        self._entered.clear()
        threading.setprofile(self)
        sys.setprofile(self)
        try:
            answer = work()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        ways = self._entered.values()
        files = {name for way in ways for name in way}
        changes = sum(before != after for way in ways for before, after in pairwise(way))
        return {"answer": answer, "files": len(files), "changes": changes, "ways": list(map(self._shown, ways))}

    def _shown(self, way: list[str]) -> list[str]:
        """The files in the order in which they are entered, each as often as the way comes back to it."""
        turns = [name for before, name in pairwise(["", *way]) if before != name]
        return [name.removeprefix(f"{self._root}{os.sep}") for name in turns]


def measure(root: Path) -> dict[str, Any]:
    """Both ways, in a process whose paths and environment are those of the checkout."""
    import importlib

    tables = importlib.import_module("millrace.stores.dynamodb.tables")
    names = tables.TableNames(os.environ["QUEUE_TABLE"], os.environ["DEAD_LETTER_TABLE"])
    tables.create_tables(names, endpoint_url=os.environ["AWS_ENDPOINT_URL_DYNAMODB"], region=REGION)
    ingress = importlib.import_module("functions.ingress.handler").handler
    worker = importlib.import_module("functions.worker.handler").handler
    event = json.loads((root / "events" / "ingress-github-v2.json").read_text("utf-8"))
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 30_000)
    trace = Trace(root)

    def send(number: int) -> int:
        sent = {**event, "headers": {**event["headers"], "x-github-delivery": f"delivery-{number}"}}
        status: int = ingress(sent, None)["statusCode"]
        return status

    def drain() -> Any:
        return worker({"tenant": "default", "queue": QUEUE}, context)["drained"]

    send(1)
    drain()
    way_in = trace.of(lambda: send(2))
    return {"in": way_in, "out": trace.of(drain)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=ROOT, help="a checkout of the repository")
    parser.add_argument("--show", action="store_true", help="name the files, in the order in which they are entered")
    given = parser.parse_args()
    root = given.root.resolve()
    if "QUEUE_TABLE" in os.environ:  # the process that is measured
        sys.stderr.write(f"{json.dumps(measure(root))}\n")
        return
    with DynamoDbLocal() as engine:
        environment = {
            **{name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
            **CREDENTIALS,
            "PYTHONPATH": os.pathsep.join([str(root / "shared"), str(root), str(ROOT)]),
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL_DYNAMODB": engine.url,
            "QUEUE_TABLE": "hops-queue",
            "DEAD_LETTER_TABLE": "hops-dead-letters",
            "BODY_BUCKET": "none",
            "DEFINITIONS": str(root / "infra" / "definitions.json"),
            "GITHUB_WEBHOOK_SECRET": "events-secret",
            "COMMANDS": "commands",
        }
        command = [sys.executable, __file__, "--root", str(root)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found = json.loads(done.stderr.splitlines()[-1])
    for way, meaning in (("in", "a webhook accepted"), ("out", "a message worked off")):
        for turns in found[way]["ways"] if given.show else ():
            print("\n".join(turns), end="\n\n")
        print(f"way {way:<4} {found[way]['files']:4} files  {found[way]['changes']:4} changes of file  ({meaning})")
    if (found["in"]["answer"], found["out"]["answer"]) != (202, 1):
        raise SystemExit(f"not what was to be measured: {found}")


if __name__ == "__main__":
    main()
