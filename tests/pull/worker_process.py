"""A worker in a process of its own, to be killed and paused by a test: says what it does, line by line."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from millrace.client import Client, Consumer, Delivery, Hooks


def say(what: str, job: Delivery, **more: Any) -> None:
    line = {"what": what, "id": job.message.message_id, "version": job.message.version, **more}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main() -> None:
    hold = sys.argv[1] == "hold"
    client = Client(os.environ["MILLRACE_URL"], os.environ["MILLRACE_TOKEN"])
    hooks = Hooks(done=lambda job: say("done", job), lost=lambda job: say("lost", job))
    consumer = Consumer(client, concurrency=1, hooks=hooks, owner=f"{sys.argv[1]}-{os.getpid()}")

    @consumer.handle_delivery("Quick", wait_ms=2_000)
    def work(job: Delivery) -> int:
        say("started", job)
        if hold:
            sys.stdin.readline()  # until the test says so, or never
        return os.getpid()

    consumer.run()


if __name__ == "__main__":
    main()
