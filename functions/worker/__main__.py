"""The worker as a process: `python -m functions.worker [--tenant T] [--queue Q …]`."""

from __future__ import annotations

import argparse
import os
import sys

from functions.worker.handler import logger
from millrace.worker.deployment import drainer_from
from millrace.worker.process import Process


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m functions.worker", description="Drain queues until stopped.")
    parser.add_argument("--tenant", help="only this tenant's queues")
    parser.add_argument("--queue", action="append", default=[], help="only this queue; may be given again")
    given = parser.parse_args(arguments)
    process = Process(drainer_from(os.environ), tenant=given.tenant, queues=given.queue)
    process.stop_on_signals()
    logger.info("The worker is up.", extra={"action": "worker_up", "pid": os.getpid()})
    process.run()
    logger.info("The worker is down.", extra={"action": "worker_down", "pid": os.getpid()})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
