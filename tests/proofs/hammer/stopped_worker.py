"""A worker of the hammer that stops itself while it holds claims: `python -m tests.proofs.hammer.stopped_worker`.

It sends its messages, claims some, begins to run them and stops. Once it is continued it tries to end them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from infra.local.dynamodb import REGION
from millrace.engine.claim import Claim
from millrace.model.queue_spec import Ordering
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from tests.faults.crashes import freeze
from tests.proofs.hammer.worker import Assignment, Worker

MESSAGES = 5


def assignment(tables: TableNames, tenant: str, folder: Path, *, number: int) -> Assignment:
    """What the stopped process (0) and the one that takes over (1) are to do."""
    return Assignment(
        tables=tables,
        tenant=tenant,
        ordering=Ordering.UNORDERED,
        lease_ms=1_000,
        batch=MESSAGES,
        messages=MESSAGES,
        processes=1,
        number=number,
        incarnation=0,
        seed=4,  # claims a whole batch, and all its runs succeed
        folder=folder,
    )


class StoppedWorker(Worker):
    """Stops itself between the start of its runs and their end."""

    def _finish(self, runnable: list[Claim]) -> bool:
        freeze()
        return super()._finish(runnable)

    def run(self) -> None:
        for drafts in self._shares():
            self._send(drafts)
        self._work()


def main(endpoint: str, queue: str, dead_letters: str, tenant: str, folder: str) -> None:
    client = dynamodb_client(endpoint_url=endpoint, region=REGION)
    StoppedWorker(assignment(TableNames(queue, dead_letters), tenant, Path(folder), number=0), client).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
