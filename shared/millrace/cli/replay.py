"""`millrace replay`: replay what was received in a window, done or dead, by an audited job."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from millrace.cli.connection import ApiConnection, CliError, Exit, remote
from millrace.cli.moments import moment
from millrace.cli.printing import print_facts, print_json, print_table

LISTED = ("job_id", "state", "of", "to", "dry_run", "done", "skipped", "failed", "created_by", "created_at")
SHOWN = ("job_id", "state", "dry_run", "done", "skipped", "failed", "failures", "note")
OF_WINDOW = ("of", "to", "received_from", "received_before", "read_units")


@click.command("replay")
@click.argument("queue")
@click.option("--of", type=click.Choice(["done", "dead", "all"]), default="dead", show_default=True)
@click.option("--received-from", callback=moment, help="Only what was received from then on (RFC 3339).")
@click.option("--received-before", callback=moment, help="Only what was received before.")
@click.option("--to", help="The queue to replay to; their own if not given.")
@click.option("--key", help="Only messages of this key.")
@click.option("--project", help="Only messages of this project.")
@click.option("--correlation-id", help="Only messages of this correlation id.")
@click.option("--rate", type=click.IntRange(1, 1000), help="Messages a second; as fast as possible if not given.")
@click.option("--again", is_flag=True, help="Also dead letters that were replayed before.")
@click.option("--any-order", is_flag=True, help="Accept that an ordered queue gets what is done in no order.")
@click.option("--dry-run", is_flag=True, help="Count what would be replayed, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--list", "listing", is_flag=True, help="List the queue's replays of the last 30 days.")
@click.option("--show", metavar="JOB", help="Show how far a replay is, and what it met.")
@click.option("--cancel", metavar="JOB", help="Stop a replay; what is replayed stays replayed.")
@click.option("--resume", metavar="JOB", help="Let a stopped replay go on.")
@remote
def replay_window_command(connection: ApiConnection, queue: str, **given: Any) -> None:
    """Enqueue what was received in a window again, each message once, as a new one that names it as its origin.

    A job goes through the table (of done messages there is no index) at a bounded pace; it can be cancelled and
    resumed, and finishes after a crash. What the table has forgotten is replayed from exports or the lake: `millrace
    bulk`.
    """
    with connection.client() as client:
        if given["listing"]:
            _list(connection, client.jobs(queue))
            return
        if given["show"]:
            _show(connection, client.job(queue, given["show"]))
            return
        for change, act in (("cancel", client.cancel_job), ("resume", client.resume_job)):
            if given[change]:
                _show(connection, act(queue, given[change]))
                return
        window = _window(queue, given)
        if not given["dry_run"] and not given["yes"]:
            where = f" to {given['to']}" if given["to"] else ""
            click.confirm(f"Replay {given['of']} messages of {queue}{where}?", abort=True, err=True)
        only = {name: given[name] for name in ("key", "project", "correlation_id") if given[name]}
        job = client.start_job(queue, "replay", only, rate=given["rate"], again=given["again"], window=window)
        _show(connection, job)


def _window(queue: str, given: Mapping[str, Any]) -> dict[str, Any]:
    times = {name: given[name] for name in ("received_from", "received_before") if given[name]}
    if given["of"] != "dead" and len(times) < 2:
        raise CliError(f"Say --received-from and --received-before: {given['of']} needs a window.", Exit.USAGE)
    shown = {name: time.isoformat() for name, time in times.items() if isinstance(time, datetime)}
    flags = {name: True for name in ("any_order", "dry_run") if given[name]}
    return {"of": given["of"], "to": given["to"] or queue, **shown, **flags}


def _list(connection: ApiConnection, jobs: list[Mapping[str, Any]]) -> None:
    found = [{**job, **job["window"]} for job in jobs if job.get("window")]
    print_json(found) if connection.as_json else print_table(LISTED, found)


def _show(connection: ApiConnection, job: Mapping[str, Any]) -> None:
    window = job.get("window", {})
    if connection.as_json:
        print_json(job)
        return
    met = ", ".join(f"{status} {count}" for status, count in window.get("statuses", {}).items())
    of_window = {name: window[name] for name in OF_WINDOW if name in window}
    print_facts({**{name: job[name] for name in SHOWN}, **of_window, "met": met})
    if window.get("samples"):
        print_table(("message_id", "status", "received_at"), window["samples"], title="Some of them")
