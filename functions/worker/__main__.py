"""The worker as a process: `python -m functions.worker [--tenant T] [--queue Q …]`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable

from functions.worker.handler import logger
from millrace.worker.deployment import drainer_from
from millrace.worker.drainer import QueueDrainer
from millrace.worker.process import Process


def _serve_metrics(drainer: QueueDrainer, port: int | None, host: str) -> Callable[[], None]:
    """What stops it; nothing is served without a port."""
    if port is None:
        return lambda: None
    from millrace.worker.prometheus import QueueGauges, registry_with, run_metrics, serve

    return serve(registry_with(run_metrics(), QueueGauges(drainer.runtime, drainer.definitions)), port, host)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m functions.worker", description="Drain queues until stopped.")
    parser.add_argument("--tenant", help="only this tenant's queues")
    parser.add_argument("--queue", action="append", default=[], help="only this queue; may be given again")
    parser.add_argument("--metrics-port", type=int, help="answer /metrics there, for Prometheus")
    parser.add_argument("--metrics-host", default="127.0.0.1", help="an address besides this machine's own")
    given = parser.parse_args(arguments)
    drainer = drainer_from({**os.environ, **({"PROMETHEUS": "1"} if given.metrics_port is not None else {})})
    stop_metrics = _serve_metrics(drainer, given.metrics_port, given.metrics_host)
    process = Process(drainer, tenant=given.tenant, queues=given.queue)
    process.stop_on_signals()
    logger.info("The worker is up.", extra={"action": "worker_up", "pid": os.getpid()})
    process.run()
    stop_metrics()
    logger.info("The worker is down.", extra={"action": "worker_down", "pid": os.getpid()})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
