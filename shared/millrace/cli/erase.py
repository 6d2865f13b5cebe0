"""`millrace erase`: forget all that belongs to a key, a project or a tenant, or one message, by an audited job."""

from __future__ import annotations

from typing import Any

import click

from millrace.cli.connection import ApiConnection, CliError, Exit, remote
from millrace.cli.printing import print_facts, print_json, print_table

LISTED = ("job_id", "state", "dry_run", "done", "skipped", "failed", "created_by", "created_at")
SHOWN = ("job_id", "state", "selects", "dry_run", "done", "skipped", "failed", "failures", "note")


@click.command("erase")
@click.option("--key", help="Messages of this key.")
@click.option("--project", help="Messages of this project.")
@click.option("--id", "message_id", help="One message, and what it was replayed as.")
@click.option("--idempotency-key", help="The same, by its sender's key.")
@click.option("--everything", is_flag=True, help="All messages of the tenant.")
@click.option("-q", "--queue", help="Only in this queue.")
@click.option("--dry-run", is_flag=True, help="Count what would be erased, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--list", "listing", is_flag=True, help="List the erasures of the last 30 days.")
@click.option("--show", metavar="JOB", help="Show how far an erasure is.")
@click.option("--cancel", metavar="JOB", help="Stop an erasure; what is erased stays erased.")
@click.option("--resume", metavar="JOB", help="Let a stopped erasure go on.")
@remote
def erase_command(connection: ApiConnection, **given: Any) -> None:
    """Forget what belongs to a key, a project, a tenant, or one message: queued, held, done or dead.

    A job goes through the tables; it can be cancelled and resumed, and finishes after a crash. What is left in
    backups is printed with it.
    """
    with connection.client() as client:
        if given["listing"]:
            found = client.erasures()
            print_json(found) if connection.as_json else print_table(LISTED, found)
            return
        if given["show"]:
            _show(connection, client.erasure(given["show"]))
            return
        for change in ("cancel", "resume"):
            if given[change]:
                _show(connection, client.change_erasure(given[change], change))
                return
        selection = _selection(given)
        tenant = str(client.who_am_i()["tenant"])
        if not given["dry_run"] and not given["yes"]:
            click.confirm(f"Erase this of tenant {tenant} for good?", abort=True, err=True)
        _show(connection, client.start_erasure(selection, confirm=tenant, dry_run=given["dry_run"]))


def _selection(given: dict[str, Any]) -> dict[str, Any]:
    ways = ("key", "project", "message_id", "idempotency_key", "everything")
    chosen = {name: given[name] for name in ways if given[name]}
    if len(chosen) != 1:
        raise CliError("Say what to erase: one of --key, --project, --id, --idempotency-key, --everything.", Exit.USAGE)
    return {**chosen, "queue": given["queue"]} if given["queue"] else chosen


def _show(connection: ApiConnection, job: Any) -> None:
    if connection.as_json:
        print_json(job)
        return
    print_facts({name: job[name] for name in SHOWN})
    click.echo("\nWhat an erasure does not reach:", err=True)
    for line in job["remains"]:
        click.echo(f"  {line}", err=True)
