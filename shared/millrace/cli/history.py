"""`millrace check-history`: check what production recorded against what the queue promises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from millrace.cli.printing import print_json, print_table
from millrace.history.checker import Verdict, check_history
from millrace.history.liveness import STALLED_AFTER_MS
from millrace.history.reader import LogRecords, opened
from millrace.history.records import Fault, HistoryRecord
from millrace.model.queue_spec import Ordering

SOUND, BROKEN, UNREADABLE = 0, 1, 2
#: How many unfinished messages are named; --json names all.
SHOWN = 20


@click.command("check-history")
@click.argument("files", nargs=-1, required=True)
@click.option("--complete", is_flag=True, help="The logs are complete: a message that has not ended is lost.")
@click.option("--skew-ms", default=100, show_default=True, help="How far the writers' clocks may differ.")
@click.option(
    "--stalled-after",
    default=STALLED_AFTER_MS // 1000,
    show_default=True,
    metavar="SECONDS",
    help="How long a message that could run may be left while later ones run; 0 does not look for it.",
)
@click.option("--queue", "only_queue", help="Only this queue.")
@click.option("--tenant", "only_tenant", help="Only this tenant.")
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def check_history_command(
    files: tuple[str, ...],
    *,
    complete: bool,
    skew_ms: int,
    stalled_after: int,
    only_queue: str | None,
    only_tenant: str | None,
    as_json: bool,
) -> None:
    """Check logs of functions that record histories (LOG_HISTORY=1, the template's LogHistory).

    FILES are logs in any form that CloudWatch gives them: as written, tailed, exported, queried; also packed by
    gzip; - is standard input. Give the logs of every function that touches the queues, over the same time.

    \b
    Exit codes: 0 every promise was kept · 1 a promise was broken · 2 the logs cannot be read, or hold no history
    """
    log = LogRecords()
    chosen = dict.fromkeys(  # an export may hold a line twice
        record
        for record in _read(log, files)
        if only_queue in (None, record.queue) and only_tenant in (None, record.tenant)
    )
    verdict = check_history(
        chosen,
        ordering=Ordering.PER_KEY,
        complete=complete,
        skew_ms=skew_ms,
        stalled_after_ms=stalled_after * 1000,
    )
    if as_json:
        print_json(_document(log, verdict))
    else:
        _print(log, verdict, complete=complete)
    if verdict.findings:
        raise SystemExit(BROKEN)
    if log.torn or not chosen:
        raise SystemExit(UNREADABLE)


def _read(log: LogRecords, files: tuple[str, ...]) -> Iterator[HistoryRecord]:
    for name in files:
        try:
            with opened(name) as lines:
                yield from log.read(name, lines)
        except (OSError, EOFError) as error:
            click.echo(f"{name} cannot be read: {error}", err=True)
            raise SystemExit(UNREADABLE) from error


def _rows(verdict: Verdict) -> dict[str, int]:
    return {
        "accepted": verdict.accepted,
        "runs started": verdict.started,
        "done": verdict.done,
        "dead": verdict.dead,
        "purged": verdict.purged,
        "unfinished": len(verdict.unfinished),
        "acks without an answer (counted as done)": verdict.unanswered,
        "duplicate starts (their worker was lost)": verdict.repeats,
        "stale claims refused": verdict.stale,
        "broken promises": len(verdict.findings),
    }


def _print(log: LogRecords, verdict: Verdict, *, complete: bool) -> None:
    click.echo(
        f"{log.lines:,} lines: {log.recorded:,} of the history, {log.other:,} others, {len(log.torn):,} unreadable."
    )
    print_table(("what", "count"), [{"what": name, "count": f"{count:,}"} for name, count in _rows(verdict).items()])
    for finding in verdict.findings:
        click.echo(f"{click.style(finding.fault.value, fg='red')}  {finding.message}: {finding.shown_by}")
    if verdict.unfinished and not complete:
        more = f" and {len(verdict.unfinished) - SHOWN:,} more" if len(verdict.unfinished) > SHOWN else ""
        click.echo(f"Unfinished when the logs end: {', '.join(verdict.unfinished[:SHOWN])}{more}")
    for line in log.torn[:SHOWN]:
        click.echo(f"Unreadable: {line}", err=True)
    if not log.recorded:
        click.echo("No history was found: is LOG_HISTORY=1 set (the template's LogHistory)?", err=True)


def _document(log: LogRecords, verdict: Verdict) -> dict[str, Any]:
    faults = {fault.value: verdict.count(fault) for fault in Fault}
    return {
        "lines": {"read": log.lines, "history": log.recorded, "other": log.other, "unreadable": log.torn},
        "accepted": verdict.accepted,
        "started": verdict.started,
        "done": verdict.done,
        "dead": verdict.dead,
        "purged": verdict.purged,
        "unfinished": list(verdict.unfinished),
        "unanswered": verdict.unanswered,
        "duplicate_starts": verdict.repeats,
        "stale_refused": verdict.stale,
        "faults": {name: count for name, count in faults.items() if count},
        "findings": [
            {"fault": f.fault.value, "message_id": f.message, "shown_by": f.shown_by} for f in verdict.findings
        ],
    }
