"""`make bench`: what a queue's own key adds to the CPU of a message, side by side in one run.

Enqueue, claim and reading the body, in batches, on the client that the functions deploy. Rounds are interleaved, so
that noise hits both alike; the ratio is the median over rounds. KMS is in memory: its calls, one for a thousand
messages, are left out.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
from functools import partial
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from infra.local.dynamodb import CREDENTIALS, REGION
from millrace.engine.claim import body_of, claim
from millrace.engine.enqueue import enqueue_all
from millrace.engine.finish import ack
from millrace.engine.queue import Queue, Runtime
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.minimal_client import minimal_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.memory.queue import MemoryBlobs
from tests.engines import own_engine
from tests.performance.bench.bench_engine import body, timed
from tests.performance.kms_sizes import KeysOfKmsSize

NAMES = TableNames("millrace-encryption-queue", "millrace-encryption-dead-letters")
BATCH = 25


def work_off(queue: Queue, bodies: list[bytes]) -> None:
    """Whole lives, a batch at a time."""
    for first in range(0, len(bodies), BATCH):
        batch = bodies[first : first + BATCH]
        enqueue_all(queue, [Draft(one) for one in batch])
        claims = claim(queue, owner="bench", limit=BATCH).claims
        assert sorted(body_of(queue, held) for held in claims) == sorted(batch)
        ack(queue, [held.entry for held in claims], [b'{"ok":true}'] * len(claims))


#: In a fresh process: the SDK that a function without the minimal client loads, and what a first encryption loads.
SDK = "import boto3; boto3.client('dynamodb', region_name='eu-west-1')"
FIRST = """
from millrace.aws.kms import KmsKeys
KmsKeys(region='eu-west-1')._connected()
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
"""


def first_against_the_sdk(rounds: int) -> float:
    """How long a process's first encryption takes to load, by the time of boto3 and one client: the median ratio."""

    def took(code: str) -> float:
        timed_code = f"import time; began = time.perf_counter()\n{code}\nprint(time.perf_counter() - began)"
        return float(subprocess.run([sys.executable, "-c", timed_code], capture_output=True, check=True).stdout)

    return median(took(FIRST) / took(SDK) for _ in range(rounds))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds")
    rounds, messages = (3, 100) if parser.parse_args().quick else (9, 500)
    rng = random.Random(3)
    kinds = {
        "30 bytes": b'{"action":"opened","number":7}',
        "3 KB of JSON": body(rng),
        "30 KB of noise": rng.randbytes(30_000),
    }
    table = Table(title="Whole lives in batches: CPU and time of a message under a KMS key")
    for heading in ("body", "µs of CPU, plain", "µs of CPU, encrypted", "CPU of plain", "time of plain"):
        table.add_column(heading, justify="right" if table.columns else "left", no_wrap=True)
    with own_engine() as url:
        create_tables(NAMES, endpoint_url=url, region=REGION)
        client: Any = minimal_client({**CREDENTIALS, "AWS_ENDPOINT_URL_DYNAMODB": url})
        runtime = Runtime(DynamoStore(client, NAMES), MemoryBlobs(), keys=KeysOfKmsSize())
        queues = [runtime.queue("bench", QueueSpec(name, encrypt=key)) for name, key in (("P", ""), ("E", "alias/b"))]
        for name, one in kinds.items():
            for queue in queues:
                work_off(queue, [one] * BATCH)
            work = [partial(work_off, queue, [one] * messages) for queue in queues]
            found = [[timed(way, messages) for way in work] for _ in range(rounds)]
            cpu = [median(1e6 * pair[way].cpu_s for pair in found) for way in (0, 1)]
            ratios = [
                median(getattr(pair[1], of) / getattr(pair[0], of) for pair in found) for of in ("cpu_s", "wall_s")
            ]
            table.add_row(name, *(f"{value:.0f}" for value in cpu), *(f"{ratio:.2f}" for ratio in ratios))
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(table)
    console.print(f"The first in a process loads for {first_against_the_sdk(rounds):.2f} of boto3 and one client.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
