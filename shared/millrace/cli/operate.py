"""Commands for operators: `search`, `cancel`, `purge`, `jobs`, `audit`."""

from __future__ import annotations

from typing import Any

import click

from millrace.cli.connection import ApiConnection, CliError, Exit, remote
from millrace.cli.printing import print_facts, print_json, print_table

FOUND = ("queue", "message_id", "status", "correlation_id", "at", "dead_letter_id")
JOB = ("job_id", "queue", "kind", "state", "total", "done", "skipped", "failed", "created_by", "created_at")
EVENT = ("at", "name", "action", "queue", "subject", "outcome", "result", "source_ip")
_yes = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@click.command("search")
@click.argument("wanted")
@remote
def search_command(connection: ApiConnection, wanted: str) -> None:
    """Find messages by message id, dead letter id or correlation id."""
    with connection.client() as client:
        found = client.search(wanted)
    if connection.as_json:
        print_json(found)
    elif found["found"]:
        print_table(FOUND, found["found"])
    if not found["found"]:
        raise CliError(f"Nothing was found under {wanted!r}.", Exit.NOTHING)
    if not found["complete"]:
        click.echo("There was more to search than one request does.", err=True)


@click.command("cancel")
@click.argument("queue")
@click.argument("message_id")
@click.option("--running", is_flag=True, help="Also while a worker holds it: the worker is told to stop.")
@remote
def cancel_command(connection: ApiConnection, queue: str, message_id: str, *, running: bool) -> None:
    """Take a message out of its queue for good.

    A worker that holds it is told with its next heartbeat; what its run still does is not undone, and what it answers
    changes nothing.
    """
    with connection.client() as client:
        client.cancel_message(queue, message_id, running=running)
    _show(connection, {"cancelled": message_id})


@click.command("purge")
@click.argument("queue")
@_yes
@remote
def purge_command(connection: ApiConnection, queue: str, *, yes: bool) -> None:
    """Take every message that nobody holds out of QUEUE for good, by a job."""
    with connection.client() as client:
        if not yes:
            click.confirm(f"Delete every message of {queue} for good?", abort=True, err=True)
        job = client.start_job(queue, "purge_queue")
    show_job(connection, job)


@click.group("jobs")
def jobs() -> None:
    """Jobs over many messages: list, show, cancel, resume."""


@jobs.command("list")
@click.argument("queue", required=False)
@click.option("-n", "--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@remote
def list_command(connection: ApiConnection, queue: str | None, limit: int) -> None:
    """List the jobs of a queue, or of all, newest first."""
    with connection.client() as client:
        found = client.jobs(queue, limit=limit)
    print_json(found) if connection.as_json else print_table(JOB, found)


@jobs.command("show")
@click.argument("queue")
@click.argument("job_id")
@remote
def show_command(connection: ApiConnection, queue: str, job_id: str) -> None:
    """Show a job's progress."""
    with connection.client() as client:
        show_job(connection, client.job(queue, job_id))


@jobs.command("cancel")
@click.argument("queue")
@click.argument("job_id")
@remote
def cancel_job_command(connection: ApiConnection, queue: str, job_id: str) -> None:
    """Stop a job after the message in hand."""
    with connection.client() as client:
        show_job(connection, client.cancel_job(queue, job_id))


@jobs.command("resume")
@click.argument("queue")
@click.argument("job_id")
@remote
def resume_job_command(connection: ApiConnection, queue: str, job_id: str) -> None:
    """Let a stopped job go on from where it was."""
    with connection.client() as client:
        show_job(connection, client.resume_job(queue, job_id))


@click.command("audit")
@click.option("--since", help="RFC 3339 time.")
@click.option("--before", help="RFC 3339 time.")
@click.option("-q", "--queue")
@click.option("--action", help="The operation's id in the OpenAPI document, as pause_queue.")
@click.option("--outcome", help="ok, started, or a problem's code.")
@click.option("-n", "--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="The `next` of the page before.")
@remote
def audit_command(connection: ApiConnection, limit: int, **query: str | None) -> None:
    """Who changed what, newest first."""
    with connection.client() as client:
        page = client.audit_events({**query, "limit": str(limit)})
    if connection.as_json:
        print_json({"events": list(page.items), "next": page.next})
        return
    print_table(EVENT, page.items)
    if page.next:
        click.echo(f"More: --cursor {page.next}", err=True)


def show_job(connection: ApiConnection, job: Any) -> None:
    """A job's progress, as a command's answer."""
    if connection.as_json:
        print_json(job)
        return
    shown = ("job_id", "kind", "state", "total", "done", "skipped", "failed", "note", "failures")
    print_facts({name: job[name] for name in shown})


def _show(connection: ApiConnection, facts: dict[str, Any]) -> None:
    print_json(facts) if connection.as_json else print_facts(facts)


COMMANDS = (search_command, cancel_command, purge_command, jobs, audit_command)
