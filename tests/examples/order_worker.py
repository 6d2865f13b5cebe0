"""A process that forks a worker whenever it is told to, so that one can be killed every few milliseconds.

On standard input: `s` starts a worker, `g` lets it go on, `q` ends. On standard output, a line each: `worker PID`, what
step its handler is at (it waits there to be told to go on), `gone` when the worker's process is no more.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from millrace.definitions import Definitions, TargetKind
from millrace.engine.queue import Runtime
from millrace.handlers.context import Context
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.minimal_client import minimal_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from millrace.worker.breaker import Breakers
from millrace.worker.commands import Commands
from millrace.worker.targets import TargetPlan, target_name
from millrace.worker.worker import Worker, WorkerSettings
from tests.examples import shop

#: Waits for what killed workers hold: a lease is 2 s.
SETTINGS = WorkerSettings(concurrency=1, patience_ms=3_000)


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def step(name: str) -> None:
    """Say where the handler is, and wait to be told to go on: whoever reads this may kill us here."""
    say(name)
    while os.read(0, 1) not in (b"g", b""):
        pass


def work(defined: Definitions, names: TableNames, way: str) -> None:
    """Drain the queue as a worker of the deployment does."""
    client = minimal_client(os.environ)
    commands = Commands()

    @commands.command("Order.Charge")
    def charge(given: dict[str, Any], context: Context) -> None:
        shop.WAYS[way](given, context, client, step)

    definition = defined.queue(shop.QUEUE)
    queue = Runtime(DynamoStore(client, names), MemoryBlobs()).queue("default", definition.spec)
    breakers = Breakers(queue, map(target_name, definition.targets))
    Worker(queue, TargetPlan(definition, {TargetKind.COMMAND: commands.deliver}, breakers), settings=SETTINGS).run()


def main() -> None:
    way, names, defined = sys.argv[1], TableNames(*sys.argv[2:4]), shop.definitions()
    while (told := os.read(0, 1)) not in (b"q", b""):
        if told != b"s":
            continue  # meant for a worker that is gone
        pid = os.fork()
        if not pid:
            say(f"worker {os.getpid()}")
            work(defined, names, way)
            os._exit(0)
        os.waitpid(pid, 0)
        say("gone")


if __name__ == "__main__":
    main()
