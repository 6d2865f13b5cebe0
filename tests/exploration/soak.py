"""`python -m tests.exploration.soak`: many more schedules, and the table of mutants with what caught them."""

from __future__ import annotations

import argparse
import sys
import time

import pytest
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.exploration.explorer import Bounds, Violation, explore, sample
from tests.exploration.mutants import MUTANTS
from tests.exploration.scenarios import SCENARIOS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=200_000, help="random schedules for each scenario")
    parser.add_argument("--ordered", type=int, default=50_000, help="schedules depth first for each scenario")
    arguments = parser.parse_args()
    console = Console()
    broken = _schedules(console, arguments.schedules, arguments.ordered)
    return 1 if broken + _mutants(console) else 0


def _schedules(console: Console, random: int, ordered: int) -> int:
    table = Table("scenario", "depth first", "random", "violations", "schedules/s", title="Schedules of the real code")
    broken = 0
    for name, scenario in track(SCENARIOS.items(), description="exploring", console=console):
        started = time.perf_counter()
        try:
            systematic = explore(scenario, Bounds(preemptions=3, crashes=1, losses=1), most=ordered)
            sampled = sample(scenario, Bounds(preemptions=8, crashes=2, losses=2), range(random))
        except Violation as violation:
            console.print(f"[red]{name}[/]: {violation}")
            broken += 1
            continue
        rate = (systematic + sampled) / (time.perf_counter() - started)
        table.add_row(name, f"{systematic:,}", f"{sampled:,}", "0", f"{rate:,.0f}")
    console.print(table)
    return broken


def _mutants(console: Console) -> int:
    table = Table("mutant", "guard taken out", "caught by", title="Mutants")
    survivors = 0
    for name, mutant in MUTANTS.items():
        with pytest.MonkeyPatch.context() as patch:
            mutant.patch(patch)
            try:
                sample(SCENARIOS[mutant.scenario], Bounds(preemptions=8, crashes=1, losses=1), range(20_000))
                caught = "[red]nothing[/]"
                survivors += 1
            except Violation as violation:
                caught = str(violation).splitlines()[0]
        table.add_row(name, mutant.breaks, caught)
    console.print(table)
    return survivors


if __name__ == "__main__":
    sys.exit(main())
