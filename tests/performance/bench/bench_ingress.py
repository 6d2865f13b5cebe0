"""The ingress against bare boto3, side by side: `python -m tests.performance.bench.bench_ingress`.

CPU        of one accepted webhook, the whole handler with its logs and metrics, against two plain `put_item` calls of
           boto3's client with the same two items. DynamoDB Local answers both; its CPU is not counted.
cold start of the handler ready to serve (imports, definitions, client) against `import boto3` and one DynamoDB
           client. Fresh processes, .pyc present on both sides, taken in turns. Either side reads the system's
           certificates with its first connection, which is not in it.

Ratios hold on a noisy machine; the times themselves do not.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table

from infra.local.dynamodb import CREDENTIALS, REGION
from tests.engines import own_engine

ROOT = Path(__file__).resolve().parents[3]
CPU_AIM, START_AIM = 1.2, 0.5
ROUNDS, CALLS, STARTS = 9, 60, 9
SECRET = "whsec_bench"
ENVIRONMENT = {
    **CREDENTIALS,
    "AWS_REGION": REGION,
    "QUEUE_TABLE": "bench-queue",
    "DEAD_LETTER_TABLE": "bench-dead-letters",
    "BODY_BUCKET": "bench-bodies",
    "DEFINITIONS": str(ROOT / "infra" / "definitions.json"),
    "STRIPE_WEBHOOK_SECRET": SECRET,
}

BOTO3 = "import boto3; boto3.client('dynamodb', region_name='eu-west-1')"
HANDLER = "from functions.ingress import handler; handler.ingress()"
PROBE = """
import sys, time
sys.path[:0] = {paths!r}
wall, cpu = time.perf_counter(), time.process_time()
{code}
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def stripe_event(number: int) -> dict[str, Any]:
    """A signed payment of about 1 KB, each with an id of its own."""
    from millrace.model.clock import system_clock
    from millrace.signatures import PRESETS, Secret
    from millrace.signatures.signing import deliver
    from tests.webhooks.gate import v2

    body = {
        "id": f"evt_{os.getpid()}_{number}",
        "type": "invoice.paid",
        "created": 1_772_442_840,
        "data": {"object": {"customer": f"cus_{number % 50}", "lines": [f"line {line}" for line in range(60)]}},
    }
    text = json.dumps(body).encode()
    url = "https://hooks.example.com/hook/Stripe"
    headers = {"content-type": "application/json", "user-agent": "Stripe/1.0"}
    return v2(deliver(PRESETS["stripe"], Secret("bench", SECRET), url, text, system_clock(), headers=headers))


def cpu_seconds(step: Callable[[int], None], numbers: range) -> float:
    before = time.process_time()
    for number in numbers:
        step(number)
    return (time.process_time() - before) / len(numbers)


def bench_cpu() -> float:
    """CPU of an accepted webhook over that of two bare puts; the median of rounds taken in turns."""
    import boto3

    from millrace.stores.dynamodb.client import TableNames

    with own_engine(TableNames("bench-queue", "bench-dead-letters")) as url:
        os.environ.update(ENVIRONMENT, AWS_ENDPOINT_URL_DYNAMODB=url)
        from functions.ingress import handler
        from functions.ingress.report import logger

        for output in logger.handlers:
            output.setStream(io.StringIO())  # type: ignore[attr-defined]
        plain = boto3.client("dynamodb", endpoint_url=url, region_name=REGION)
        written = _items_of_one(handler)
        events = [stripe_event(number) for number in range(ROUNDS * CALLS + 20)]

        def ours(number: int) -> None:
            answer = handler.handler(events[number], None)
            assert answer["statusCode"] == 202, answer

        def bare(number: int) -> None:
            for item in written:
                plain.put_item(TableName="bench-queue", Item={**item, "sk": {"S": f"{item['sk']['S']}{number}"}})

        with contextlib.redirect_stdout(io.StringIO()):
            cpu_seconds(ours, range(ROUNDS * CALLS, ROUNDS * CALLS + 20))
            cpu_seconds(bare, range(20))
            rounds = []
            for turn in range(ROUNDS):
                numbers = range(turn * CALLS, (turn + 1) * CALLS)
                rounds.append((cpu_seconds(ours, numbers), cpu_seconds(bare, numbers)))
    mine, theirs = (statistics.median(column) * 1000 for column in zip(*rounds, strict=True))
    ratio = statistics.median(ours / bare for ours, bare in rounds)
    table = Table("", Column("ms", justify="right"), title="CPU for one accepted webhook (1 KB, Stripe)")
    table.add_row("whole handler, logs and metrics included", f"{mine:.2f}")
    table.add_row("two bare boto3 put_item of the same items", f"{theirs:.2f}")
    table.add_row(f"ratio (aim: at most {CPU_AIM})", f"{ratio:.2f}")
    Console().print(table)
    return ratio


def _items_of_one(handler: Any) -> list[dict[str, Any]]:
    """The two items that one webhook leaves in the table."""
    client = handler.ingress().runtime.store._calls.client
    seen: list[dict[str, Any]] = []
    put = client.put_item

    def recorded(**arguments: Any) -> Any:
        seen.append(arguments["Item"])
        return put(**arguments)

    client.put_item = recorded
    with contextlib.redirect_stdout(io.StringIO()):
        handler.handler(stripe_event(-1), None)
    del client.put_item
    assert len(seen) == 2
    return seen


def bench_start() -> float:
    """Time to be ready, over that of `import boto3` and a client; the median of fresh processes in turns."""
    for code in (HANDLER, BOTO3):
        _start(code)  # uncounted: it writes the .pyc that a fresh environment does not have
    starts = [(_start(HANDLER), _start(BOTO3)) for _ in range(STARTS)]
    columns = (Column(name, justify="right") for name in ("ms", "CPU ms"))
    table = Table("", *columns, title="Cold start, fresh process, .pyc present")
    for name, side in (("handler, ready to serve", 0), ("import boto3 and one client", 1)):
        wall, cpu = (statistics.median(pair[side][kind] for pair in starts) * 1000 for kind in (0, 1))
        table.add_row(name, f"{wall:.0f}", f"{cpu:.0f}")
    ratio, cpu_ratio = (statistics.median(ours[kind] / bare[kind] for ours, bare in starts) for kind in (0, 1))
    table.add_row(f"ratio (aim: at most {START_AIM})", f"{ratio:.2f}", f"{cpu_ratio:.2f}")
    Console().print(table)
    return max(ratio, cpu_ratio)


def _start(code: str) -> tuple[float, float]:
    probe = PROBE.format(paths=[str(ROOT / "shared"), str(ROOT)], code=code)
    dropped = ("AWS_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    done = subprocess.run(
        [sys.executable, "-c", probe], env={**kept, **ENVIRONMENT}, capture_output=True, text=True, check=True
    )
    wall, cpu = done.stdout.split()[-2:]
    return float(wall), float(cpu)


def main() -> int:
    held = [bench_cpu() <= CPU_AIM, bench_start() <= START_AIM]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
