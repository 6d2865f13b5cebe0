"""Hammer one queue on DynamoDB Local and print what came of it.

python -m tests.proofs.hammer.run --messages 5000 --processes 8
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from infra.local.dynamodb import REGION
from millrace.history.records import Fault
from millrace.model.queue_spec import Ordering
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.tables import create_tables
from tests.engines import own_engine, use_local_credentials
from tests.proofs.hammer.hammer import Hammer, Report
from tests.proofs.hammer.worker import Assignment

TABLES = TableNames("millrace-hammer-queue", "millrace-hammer-dead-letters")


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    console = Console(stderr=True)
    use_local_credentials()
    engine = contextlib.nullcontext(options.endpoint) if options.endpoint else own_engine()
    with engine as endpoint, tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.history or scratch)
        folder.mkdir(parents=True, exist_ok=True)
        create_tables(TABLES, endpoint_url=endpoint, region=REGION)
        report = _hammer(options, endpoint, folder, console)
    if options.json:
        sys.stdout.write(json.dumps(asdict(report)) + "\n")
    else:
        _show(report, Console())
    return 0 if report.verdict.sound else 1


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--kills", type=int, default=16, help="by the parent; the processes kill themselves as well")
    parser.add_argument("--stops", type=int, default=4, help="processes stopped past their leases")
    parser.add_argument("--ordering", type=Ordering, choices=list(Ordering), default=Ordering.UNORDERED)
    parser.add_argument("--lease-ms", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--within", type=float, default=900, help="seconds after which it gives up")
    parser.add_argument("--endpoint", default="", help="a running DynamoDB Local; else one is started")
    parser.add_argument("--tenant", default=f"h{os.getpid()}")
    parser.add_argument("--history", default="", help="folder to keep the histories in")
    parser.add_argument("--json", action="store_true", help="print the report as JSON, no progress")
    return parser.parse_args(arguments)


def _hammer(options: argparse.Namespace, endpoint: str, folder: Path, console: Console) -> Report:
    assignment = Assignment(
        tables=TABLES,
        tenant=options.tenant,
        ordering=options.ordering,
        lease_ms=options.lease_ms,
        batch=options.batch,
        messages=options.messages,
        processes=options.processes,
        number=0,
        incarnation=0,
        seed=options.seed,
        folder=folder,
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # No thread of its own: the parent forks.
    with Progress(*columns, console=console, auto_refresh=False, disable=options.json) as bar:
        task = bar.add_task("ended", total=options.messages)

        def shown(ended: int) -> None:
            bar.update(task, completed=ended)
            bar.refresh()

        # Made once and used by the children alone: making a client takes longer than most of them live.
        client = dynamodb_client(endpoint_url=endpoint, region=REGION)
        return Hammer(assignment, client, kills=options.kills, stops=options.stops, shown=shown).run(options.within)


def _show(report: Report, console: Console) -> None:
    verdict = report.verdict
    table = Table(title="The hammer")
    rows = {
        "accepted": verdict.accepted,
        "done": verdict.done,
        "  of them by an ack whose sender was killed before the answer": verdict.unanswered,
        "dead (rejected)": verdict.dead,
        "lost": verdict.count(Fault.LOST) + verdict.count(Fault.NEVER_ACKED),
        "ended twice": verdict.count(Fault.ENDED_TWICE, Fault.DONE_AND_DEAD),
        "stale acks accepted": verdict.count(Fault.STALE_ACK_ACCEPTED),
        "refused for a stale claim": verdict.stale,
        "all findings": len(verdict.findings),
        "killed by the parent": report.kills,
        "killed by themselves between two store calls": report.self_kills,
        "gave up for want of an answer, and were started again": report.gave_up,
        "stopped past the lease (taken over)": f"{report.stops} ({report.taken_over})",
        "orphans left by killed senders": report.orphans,
        "seconds": f"{report.seconds:.1f}",
    }
    table.add_column("")
    table.add_column("", justify="right")
    for name, value in rows.items():
        table.add_row(name, str(value))
    console.print(table)
    for finding in verdict.findings[:20]:
        console.print(f"[red]{finding.fault}[/red] {finding.message}: {finding.shown_by}")


if __name__ == "__main__":
    raise SystemExit(main())
