"""`python -m tests.proofs.exploration.soak`: schedules by the million, a row for each scenario; then the mutants.

Every schedule within small bounds is tried, and random ones with more trouble, until they or the time are used up.
`--schedules 0` prints the mutants' table alone.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context

import pytest
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.proofs.exploration.explorer import Bounds, Census, Violation, explore, sample
from tests.proofs.exploration.mutants import MUTANTS
from tests.proofs.exploration.scenarios import SCENARIOS

#: Gone through to the end, where time allows.
ALL = (
    Bounds(preemptions=2, crashes=0, losses=0),
    Bounds(preemptions=1, crashes=1, losses=0),
    Bounds(preemptions=1, crashes=0, losses=1),
    Bounds(preemptions=1, crashes=1, losses=1),
)
RANDOM = Bounds(preemptions=8, crashes=2, losses=2)
CALM, TROUBLED = Bounds(preemptions=8, crashes=0, losses=0), Bounds(preemptions=8, crashes=1, losses=1)
SLICE = 2_000
#: Schedules of each kind that a mutant gets in its own scenario, and in each of the others.
HUNT, GLANCE = 10_000, 200


@dataclass
class Findings:
    """What came of one scenario's schedules."""

    scenario: str
    whole: list[Bounds] = field(default_factory=list)  #: of which every schedule was tried
    in_order: int = 0  #: schedules of `ALL`
    census: Census = field(default_factory=Census)
    violations: list[str] = field(default_factory=list)

    def add(self, other: Findings) -> None:
        self.whole += other.whole
        self.in_order += other.in_order
        self.census.add(other.census)
        self.violations += other.violations


@dataclass(frozen=True)
class Stretch:
    """Schedules that one process goes through at a time: all of some bounds, or random ones."""

    scenario: str
    bounds: Bounds
    end: float  #: of the time, on the clock that all processes share
    seeds: range | None = None

    def go(self) -> Findings:
        found, scenario = Findings(self.scenario), SCENARIOS[self.scenario]
        try:
            if self.seeds is not None:
                sample(scenario, self.bounds, (seed for seed in self.seeds if not self._over()), found.census)
                return found
            found.in_order = explore(scenario, self.bounds, sys.maxsize, found.census, self._over)
            if not self._over():
                found.whole.append(self.bounds)
        except Violation as violation:
            found.violations.append(str(violation))
        return found

    def _over(self) -> bool:
        return time.monotonic() > self.end


@dataclass(frozen=True)
class Hunt:
    """One mutant against every scenario."""

    mutant: str

    def go(self) -> tuple[str, str, int, int]:
        """The mutant, what it broke, after how many schedules of its scenario, and how many scenarios catch it."""
        mutant = MUTANTS[self.mutant]
        with pytest.MonkeyPatch.context() as patch:
            mutant.patch(patch)
            broken, tried = _caught(mutant.scenario, HUNT)
            others = [name for name in SCENARIOS if name != mutant.scenario and _caught(name, GLANCE)[0]]
        return self.mutant, broken, tried, bool(broken) + len(others)


def _caught(scenario: str, most: int) -> tuple[str, int]:
    """The first violation, if any, and the schedules up to it; calm ones and troubled ones in turn."""
    census = Census()
    try:
        for seed in range(0, most, 100):
            sample(SCENARIOS[scenario], CALM, range(seed, seed + 100), census)
            sample(SCENARIOS[scenario], TROUBLED, range(seed, seed + 100), census)
    except Violation as violation:
        return str(violation).splitlines()[0], census.schedules
    return "", census.schedules


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=150_000, help="random schedules for each scenario")
    parser.add_argument("--minutes", type=float, default=60, help="after which it stops where it is")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 150)
    # Forked, so that hashes of states mean the same in every process.
    with ProcessPoolExecutor(arguments.processes, get_context("fork")) as pool:
        broken = _schedules(console, pool, arguments) if arguments.schedules else 0
        survivors = _mutants(console, pool)
    return 1 if broken or survivors else 0


def _stretches(schedules: int, end: float) -> Iterator[Stretch]:
    """The quick bounds first; then random schedules of every scenario, and in between the long bounds of one."""
    *quick, long = ALL
    for bounds in quick:
        yield from (Stretch(name, bounds, end) for name in SCENARIOS)
    in_order = iter(SCENARIOS)
    for first in range(0, schedules, SLICE):
        for name in SCENARIOS:
            yield Stretch(name, RANDOM, end, range(first, min(first + SLICE, schedules)))
        yield from (Stretch(name, long, end) for name in itertools.islice(in_order, 1))
    yield from (Stretch(name, long, end) for name in in_order)


def _schedules(console: Console, pool: ProcessPoolExecutor, arguments: argparse.Namespace) -> int:
    begun = time.perf_counter()
    findings = {name: Findings(name) for name in SCENARIOS}
    end = time.monotonic() + 60 * arguments.minutes
    work = [pool.submit(stretch.go) for stretch in _stretches(arguments.schedules, end)]
    for done in track(as_completed(work), "exploring", len(work), console=console, disable=not console.is_terminal):
        found = done.result()
        findings[found.scenario].add(found)
    _show_schedules(console, findings, time.perf_counter() - begun)
    for found in findings.values():
        for violation in found.violations[:1]:
            console.print(f"[red]{found.scenario}[/]: {violation}", highlight=False)
    return sum(len(found.violations) for found in findings.values())


def _show_schedules(console: Console, findings: dict[str, Findings], seconds: float) -> None:
    table = Table(title="Schedules of the real code", show_footer=True)
    headings = ("in order", "random", "steps", "states", "deaths", "lost answers", "violations")
    rows = [
        (
            found.in_order,
            found.census.schedules - found.in_order,
            found.census.steps,
            len(found.census.states),
            found.census.deaths,
            found.census.losses,
            len(found.violations),
        )
        for found in findings.values()
    ]
    totals = [sum(column) for column in zip(*rows, strict=True)]
    table.add_column("scenario", "in all", no_wrap=True)
    for heading, total in zip(headings, totals, strict=True):
        table.add_column(heading, f"{total:,}", justify="right")
    for name, row in zip(findings, rows, strict=True):
        table.add_row(name, *(f"{value:,}" for value in row))
    console.print(table)
    tried = totals[0] + totals[1]
    console.print(
        f"{tried:,} schedules in {seconds / 60:.0f} minutes, {tried / seconds:,.0f} a second.", highlight=False
    )
    for bounds in ALL:
        whole = sum(bounds in found.whole for found in findings.values())
        console.print(f"Every one with {_said(bounds)}: {whole} of {len(findings)} scenarios.", highlight=False)
    console.print(f"Random: with up to {_said(RANDOM)}.", highlight=False)


def _said(bounds: Bounds) -> str:
    return f"{bounds.preemptions} change(s) of actor, {bounds.crashes} death(s), {bounds.losses} lost answer(s)"


def _mutants(console: Console, pool: ProcessPoolExecutor) -> int:
    table = Table(title="Mutants: one guard taken out each")
    for heading in ("mutant", "guard taken out", "caught in", "what broke"):
        table.add_column(heading)
    table.add_column("after", justify="right")
    table.add_column("scenarios that catch it", justify="right")
    hunts = list(pool.map(Hunt.go, [Hunt(name) for name in MUTANTS]))
    for name, broken, tried, catching in hunts:
        mutant = MUTANTS[name]
        what = _without_names(broken) or "[red]survived[/]"
        table.add_row(name, mutant.breaks, mutant.scenario, what, f"{tried:,}", f"{catching} of {len(SCENARIOS)}")
    console.print(table)
    caught = sum(bool(broken) for _, broken, _, _ in hunts)
    console.print(f"{caught} of {len(hunts)} caught; `after` counts schedules.", highlight=False)
    return len(hunts) - caught


def _without_names(broken: str) -> str:
    """A violation without the random ids in it."""
    return " ".join(word for word in broken.split() if len(word.strip("('\",)")) < 20)


if __name__ == "__main__":
    sys.exit(main())
