"""The state machine for longer, on both stores, and the table of what it catches.

Run it by `python -m tests.proofs.state_machine.soak`.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import traceback

import pytest
from hypothesis import Phase as Stage
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from infra.local.dynamodb import CREDENTIALS, REGION
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.memory.queue import MemoryStore
from tests.conftest import Clock
from tests.engines import own_engine
from tests.proofs.state_machine.machine import run, tried
from tests.proofs.state_machine.mutants import MUTANTS
from tests.proofs.state_machine.world import MakeStore


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", type=int, default=4_000, help="runs over the store in memory")
    parser.add_argument("--dynamodb", type=int, default=150, help="runs on DynamoDB Local")
    parser.add_argument("--steps", type=int, default=60, help="steps of a run")
    parser.add_argument("--seed", type=int, default=None, help="of another set of runs")
    arguments = parser.parse_args()
    seed = int(time.time()) if arguments.seed is None else arguments.seed
    console = Console()
    console.print(f"seed {seed}")
    table = Table("store", "runs", "steps", "messages", "violations", title="Any order of all operations")
    _runs(table, "in memory", lambda _clock: MemoryStore(), arguments.memory, arguments.steps, seed)
    if arguments.dynamodb:
        with own_engine() as url:
            _runs(table, "DynamoDB Local", _fresh_tables(url), arguments.dynamodb, arguments.steps, seed)
    console.print(table)
    return 1 if _mutants(console, seed) else 0


def _fresh_tables(url: str) -> MakeStore:
    """Tables of its own for each run: two runs of one seed make the same message ids."""
    client, numbers = dynamodb_client(endpoint_url=url, region=REGION), itertools.count()

    def make(clock: Clock) -> DynamoStore:
        number = next(numbers)
        names = TableNames(f"model-queue-{number}", f"model-dead-letters-{number}")
        create_tables(names, endpoint_url=url, region=REGION)
        return DynamoStore(client, names, clock=clock)

    return make


def _runs(table: Table, store: str, make_store: MakeStore, examples: int, steps: int, seed: int) -> None:
    tried.clear()
    run(make_store, examples=examples, steps=steps, seed=seed)
    table.add_row(store, *(f"{tried[name]:,}" for name in ("runs", "steps", "lives")), "0")


def _mutants(console: Console, seed: int) -> int:
    table = Table("mutant", "caught after", "by", title="Mutants of the model")
    survivors = 0
    for name, mutant in MUTANTS.items():
        tried.clear()
        caught = hunt(mutant, examples=1_500, seed=seed)
        survivors += caught is None
        table.add_row(name, f"{tried['steps']:,} steps", "[red]nothing[/]" if caught is None else _told(caught))
    console.print(table)
    return survivors


def _told(caught: Exception) -> str:
    """What the machine said, or the line that it failed at."""
    said = str(caught).splitlines() or [traceback.extract_tb(caught.__traceback__)[-1].line or repr(caught)]
    return escape(said[0][:100])


def hunt(mutant, *, examples: int, seed: int) -> Exception | None:  # type: ignore[no-untyped-def]
    """What the machine says about a breakage; None where it does not notice."""
    with pytest.MonkeyPatch.context() as patch:
        mutant(patch)
        try:
            run(lambda _clock: MemoryStore(), examples=examples, steps=60, seed=seed, stages=[Stage.generate])
        except Exception as violation:  # noqa: BLE001 (whatever it trips over, it is noticed)
            return violation
    return None


if __name__ == "__main__":
    import os

    os.environ.update(CREDENTIALS)
    sys.exit(main())
