"""The table of `make simulate`: loads on the real code over the model of AWS, in virtual time.

python -m tests.performance.simulation.report [NAME …]
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from rich.console import Console
from rich.table import Table

from millrace.model.queue_spec import Ordering
from tests.performance.simulation.deployment import beside_a_sweep
from tests.performance.simulation.scenarios import BESIDE, Figures, Scenario, ceiling, longest_wait_ms, run

LOADS = (
    Scenario("steady, 1 worker", rate=200),
    Scenario("steady, 10 workers", rate=200, workers=10),
    Scenario("busy, 4 shards", rate=600, workers=4, shards=4),
    Scenario("per key, 200 keys", rate=200, workers=2, ordering=Ordering.PER_KEY, keys=200),
    Scenario("fifo", rate=20, ordering=Ordering.FIFO),
    Scenario("a worker is killed", rate=100, workers=2, run_ms=200.0, kill_worker_at_s=5.0),
)
CEILINGS = (
    Scenario("1 worker"),
    Scenario("10 workers", workers=10),
    Scenario("10 workers, 4 shards", workers=10, shards=4),
    Scenario("per key, 2 workers, 200 keys", workers=2, ordering=Ordering.PER_KEY, keys=200),
    Scenario("fifo", ordering=Ordering.FIFO),
    Scenario("fifo, batches of 5", ordering=Ordering.FIFO, together=5),
    Scenario("fifo, batches of 25", ordering=Ordering.FIFO, together=25),
)
#: What shards multiply; each takes minutes.
SCALE = (
    Scenario("21,000 a second", rate=21_000, seconds=5, batch=25, senders=100, workers=80, concurrency=20, shards=100),
    Scenario(
        "per key, 5,500 a second",
        rate=5_500,
        seconds=5,
        batch=5,
        senders=100,
        workers=64,
        shards=32,
        ordering=Ordering.PER_KEY,
        keys=20_000,
    ),
)
BACKLOG, FIFO_BACKLOG = 3_000, 600
#: Queues that one sweep is given, each with a message.
QUEUES = 20_000
#: What is asked of the loads with many shards. A sender whose gaps do not fill its time sends a little less.
SCALE_TAKEN, SCALE_P50_MS, MAX_COUNTER_WRITES = 0.95, 300, 100
#: Of those loads, done a second while they are sent.
SCALE_DONE = {Ordering.UNORDERED: 20_000, Ordering.PER_KEY: 5_000}
#: What may run is started within this.
PROMISED_MS = 1_000


def main(names: list[str]) -> int:
    console = Console(width=max(150, Console().width))
    loads = [(one, run(one)) for one in _chosen(LOADS, names)]
    large = [(one, run(one)) for one in _chosen(SCALE, names)]
    ceilings = [(one, ceiling(one, _backlog(one))) for one in _chosen(CEILINGS, names)]
    if loads:
        console.print(_table("Loads in virtual time", loads))
    if large:
        console.print(_table("Many shards, for five seconds from a standing start", large))
    if ceilings:
        console.print(
            _table(f"A backlog of {BACKLOG:,} (fifo alone: {FIFO_BACKLOG}), drained as fast as it goes", ceilings)
        )
    waits = _waits(names)
    if waits:
        table = Table(title="A healthy message beside what cannot run: the longest wait of five", title_justify="left")
        table.add_column("beside")
        table.add_column("ms", justify="right")
        for name, wait_ms in waits.items():
            table.add_row(name, f"{wait_ms:,.0f}" if wait_ms < PROMISED_MS else f"[red]{wait_ms:,.0f}[/]")
        console.print(table)
    late = any(wait_ms >= PROMISED_MS for wait_ms in waits.values())
    return int(late or not all(_holds(scenario, figures) for scenario, figures in large))


def _holds(scenario: Scenario, figures: Figures) -> bool:
    """Whether a queue of many shards took all that was sent, kept up, and wrote its counter seldom enough."""
    all_taken = figures.accepted_per_s >= SCALE_TAKEN * scenario.rate and figures.throttled == 0
    kept_up = figures.done_meanwhile_per_s >= SCALE_DONE[scenario.ordering]
    return all_taken and kept_up and figures.p50_ms < SCALE_P50_MS and figures.counter_writes <= MAX_COUNTER_WRITES


def _waits(names: list[str]) -> dict[str, float]:
    """How long a healthy message waits beside each trouble, and beside a sweep over very many queues."""
    chosen = [beside for beside in BESIDE if not names or any(name in beside.name for name in names)]
    waits = {beside.name: longest_wait_ms(beside) for beside in chosen}
    sweep = f"a sweep over {QUEUES:,} queues"
    if not names or any(name in sweep for name in names):
        with pytest.MonkeyPatch.context() as patch:
            figures = beside_a_sweep(QUEUES, patch)
        waits[f"{sweep} (all swept in {figures.rounds} minutes)"] = figures.longest_ms
    return waits


def _chosen(scenarios: tuple[Scenario, ...], names: list[str]) -> list[Scenario]:
    return [one for one in scenarios if not names or any(name in one.name for name in names)]


def _backlog(scenario: Scenario) -> int:
    return FIFO_BACKLOG if scenario.ordering is Ordering.FIFO and scenario.together == 1 else BACKLOG


def _table(title: str, ran: list[tuple[Scenario, Figures]]) -> Table:
    """A column for each scenario, a row for each figure."""
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for scenario, _ in ran:
        table.add_column(scenario.name, justify="right")
    for name, cell in ROWS.items():
        table.add_row(name, *(cell(scenario, figures) for scenario, figures in ran))
    return table


ROWS: dict[str, Callable[[Scenario, Figures], str]] = {
    "sent a second": lambda one, _: f"{one.rate:,}",
    "workers": lambda one, _: f"{one.workers}",
    "shards": lambda one, _: f"{one.shards}",
    "ordering": lambda one, _: one.ordering.value,
    "accepted a second": lambda _, of: f"{of.accepted_per_s:,.0f}",
    "done a second": lambda _, of: f"{of.done_per_s:,.0f}",
    "done a second while sent, after the first second": lambda _, of: f"{of.done_meanwhile_per_s:,.0f}",
    "receipt to start, p50 ms": lambda _, of: f"{of.p50_ms:,.0f}",
    "receipt to start, p99 ms": lambda _, of: f"{of.p99_ms:,.0f}",
    "receipt to start, longest ms": lambda _, of: f"{of.longest_ms:,.0f}",
    "claim writes a win": lambda _, of: f"{of.claim_writes_a_win:.2f}",
    "write units a message": lambda _, of: f"{of.write_units:.2f}",
    "read units a message": lambda _, of: f"{of.read_units:.2f}",
    "hottest partition, write units a second": lambda _, of: f"{of.hottest:,.0f}",
    "counter, writes a second": lambda _, of: f"{of.counter_writes:,.0f}",
    "requests throttled": lambda _, of: f"{of.throttled:,}",
    "recovery after a kill, s": lambda _, of: "–" if of.recovery_ms is None else f"{of.recovery_ms / 1000:.1f}",
    "USD a million (table)": lambda _, of: f"{of.usd_a_million:.2f}",
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
