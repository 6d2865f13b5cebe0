"""What DynamoDB Local on disk forgets when killed, with the proxy and without.

Run it by `python -m tests.proofs.chaos.engine_loss`.

Transactions are written as fast as they go while the engine is killed and started again; then each that was
acknowledged is looked for.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from infra.local.dynamodb import CREDENTIALS, DynamoDbLocal
from tests.proofs.chaos.canary import TABLE, Canary
from tests.proofs.chaos.settled_engine import SettledEngine

KILLS = 10
UP_S = (3.0, 5.0)


def losses(*, settled: bool) -> tuple[int, int]:
    """How many transactions were acknowledged, and how many of them are gone."""
    chance = random.Random(1)
    with contextlib.ExitStack() as running:
        home = Path(running.enter_context(tempfile.TemporaryDirectory()))
        engine = running.enter_context(DynamoDbLocal(data=home))
        proxy = running.enter_context(SettledEngine(engine.port, TABLE))
        canary = Canary(proxy.url if settled else engine.url, every_s=0.0)
        canary.start()
        for _ in range(KILLS):
            time.sleep(chance.uniform(*UP_S))
            engine.kill()
            engine.start()
        canary.over.set()
        canary.join()
        return len(canary.acknowledged), len(canary.lost())


def main() -> int:
    os.environ.update(CREDENTIALS)
    for name, settled in (("as it is", False), ("behind the proxy", True)):
        acknowledged, lost = losses(settled=settled)
        sys.stdout.write(f"{name}: {acknowledged} transactions acknowledged, {KILLS} kills, {lost} forgotten\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
