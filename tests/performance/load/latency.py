"""From a posted webhook to its visible result, through the real stream, one at a time.

Run it by `python -m tests.performance.load.latency`.

Both functions run as they are deployed, in this process; DynamoDB Local and its stream in theirs.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from statistics import median, quantiles

from rich.console import Console
from rich.progress import track
from rich.table import Table

from infra.local.dynamodb import CREDENTIALS, REGION
from infra.local.streams import StreamPoller
from millrace.engine.status import MessageStatus, status
from tests.engines import own_engine
from tests.worker.test_end_to_end import DEFINITIONS, NAMES, SECRET, Stack

MESSAGES = 100
TENANT = "latency"
LONGEST_S = 30


def main() -> int:
    console = Console(file=sys.stdout)
    # The functions print their metrics as lines of JSON, for CloudWatch: they are no part of the figures.
    with contextlib.redirect_stdout(io.StringIO()), own_engine(NAMES, stream=True) as url:
        os.environ.update(_settings(url))
        stack = Stack(url)
        with StreamPoller(url, NAMES.queue, stack.deliver, poll_s=0.005):
            _measure(stack, 5, console)
            accepted, visible, done = zip(*_measure(stack, MESSAGES, console), strict=True)
    table = Table("ms after the post", "p50", "p99", title=f"{MESSAGES} webhooks, one at a time")
    for name, taken in (("202 answered", accepted), ("visible in the queue", visible), ("result visible", done)):
        table.add_row(name, f"{median(taken):.0f}", f"{quantiles(taken, n=100)[98]:.0f}")
    console.print(table)
    return 0


def _settings(url: str) -> dict[str, str]:
    return {
        **CREDENTIALS,
        "QUEUE_TABLE": NAMES.queue,
        "DEAD_LETTER_TABLE": NAMES.dead_letters,
        "BODY_BUCKET": "none",
        "DEFINITIONS": str(DEFINITIONS),
        "DEFAULT_TENANT": TENANT,
        "AWS_ENDPOINT_URL_DYNAMODB": url,
        "AWS_REGION": REGION,
        "COMMANDS": "tests.worker.bundle",
        "PAGERDUTY_WEBHOOK_SECRET": SECRET,
        "POWERTOOLS_METRICS_NAMESPACE": "Millrace",
        "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    }


def _measure(stack: Stack, count: int, console: Console) -> list[tuple[float, float, float]]:
    """Milliseconds from each post to its 202, to the first sight of it, and to its result."""
    queue = stack.queue(TENANT)
    taken = []
    for number in track(range(count), description="posting", console=console, transient=True):
        start = time.perf_counter()
        code, answer = stack.post(TENANT, f"{count}-{number}")
        accepted = time.perf_counter()
        if code != 202:
            raise SystemExit(f"The ingress answered {code}.")
        seen = status(queue, answer["message_id"]).status
        visible = time.perf_counter()
        while seen is not MessageStatus.DONE:
            if time.perf_counter() - start > LONGEST_S:
                raise SystemExit(f"Message {answer['message_id']} was not done within {LONGEST_S} s.")
            time.sleep(0.002)
            seen = status(queue, answer["message_id"]).status
        taken.append((accepted - start, visible - start, time.perf_counter() - start))
    return [(1000 * a, 1000 * v, 1000 * d) for a, v, d in taken]


if __name__ == "__main__":
    sys.exit(main())
