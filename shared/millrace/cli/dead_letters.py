"""Commands on dead letters: `dlq list`, `dlq show`, `dlq replay`, `dlq purge`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from millrace.cli.connection import ApiConnection, CliError, Exit, remote
from millrace.cli.printing import print_facts, print_json, print_table

if TYPE_CHECKING:
    from millrace.client import Client

COLUMNS = ("id", "failed_at", "reason", "error_type", "error", "attempts", "project", "replayed_as")
PAGE = 100


@click.group("dlq")
def dlq() -> None:
    """Dead letters: list, show, replay, purge."""


def _filtered(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--reason", type=click.Choice(["exhausted", "expired", "rejected", "body_lost"])),
        click.option("--error", help="Text in the error."),
        click.option("--project"),
        click.option("--correlation-id"),
        click.option("--failed-from", help="RFC 3339 time."),
        click.option("--failed-before", help="RFC 3339 time."),
    ):
        command = option(command)
    return command


@dlq.command("list")
@click.argument("queue")
@_filtered
@click.option("-n", "--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--cursor", help="The `next` of the page before.")
@remote
def list_command(connection: ApiConnection, queue: str, limit: int, **query: str | None) -> None:
    """A queue's dead letters, newest first."""
    with connection.client() as client:
        page = client.listed(queue, "dead-letters", {**query, "limit": str(limit)})
    if connection.as_json:
        print_json({"dead_letters": list(page.items), "next": page.next})
        return
    print_table(COLUMNS, page.items)
    if page.next:
        click.echo(f"More: --cursor {page.next}", err=True)


@dlq.command("show")
@click.argument("queue")
@click.argument("dead_letter_id")
@remote
def show_command(connection: ApiConnection, queue: str, dead_letter_id: str) -> None:
    """One dead letter with its history and body."""
    with connection.client() as client:
        found = dict(client.dead_letter(queue, dead_letter_id))
    if connection.as_json:
        print_json(found)
        return
    history = found.pop("history")
    print_facts(found)
    print_table(("number", "owner", "started_at", "ended_at", "error_type", "error"), history, title="Attempts")


@dlq.command("replay")
@click.argument("queue")
@click.argument("dead_letter_ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every dead letter that matches, not replayed before.")
@click.option("--dry-run", is_flag=True, help="Count what --all would replay, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Replay also what was replayed before, without asking.")
@_filtered
@remote
def replay_command(
    connection: ApiConnection,
    queue: str,
    dead_letter_ids: tuple[str, ...],
    *,
    everything: bool,
    dry_run: bool,
    yes: bool,
    **query: str | None,
) -> None:
    """Enqueue dead letters again, each as a new message. One that was replayed before is asked for first."""
    with connection.client() as client:
        if dry_run:
            _show_dry_run(connection, client.dry_run(queue, {n: v for n, v in query.items() if v is not None}))
            return
        wanted = _wanted(client, queue, dead_letter_ids, query, everything=everything, again=yes)
        made = [(dead_letter, _replayed(client, queue, dead_letter, yes=yes)) for dead_letter in wanted]
    _report(connection, [{"id": old, "new_message_id": new} for old, new in made], ("id", "new_message_id"))


def _replayed(client: Client, queue: str, dead_letter: str, *, yes: bool) -> str:
    from millrace.client import ReplayedBefore

    try:
        return client.replay(queue, dead_letter, again=yes)
    except ReplayedBefore as before:
        question = f"{dead_letter} was replayed as {before.message_id} before. Replay it again?"
        click.confirm(question, abort=True, err=True)
        return client.replay(queue, dead_letter, again=True)


def _show_dry_run(connection: ApiConnection, found: Mapping[str, Any]) -> None:
    if connection.as_json:
        print_json(found)
        return
    counted = {**found, "to_replay": found["count"] - found["replayed"]}
    print_facts({name: counted[name] for name in ("count", "replayed", "to_replay", "by_error", "oldest_at")})
    print_table(COLUMNS, found["sample"], title="The oldest")


@dlq.command("purge")
@click.argument("queue")
@click.argument("dead_letter_ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every dead letter that matches.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@_filtered
@remote
def purge_command(
    connection: ApiConnection,
    queue: str,
    dead_letter_ids: tuple[str, ...],
    *,
    everything: bool,
    yes: bool,
    **query: str | None,
) -> None:
    """Delete dead letters for good."""
    with connection.client() as client:
        wanted = _wanted(client, queue, dead_letter_ids, query, everything=everything, again=True)
        if not yes:
            click.confirm(f"Delete {len(wanted)} dead letters of {queue} for good?", abort=True, err=True)
        for dead_letter in _progress(wanted, "Purge"):
            client.purge(queue, dead_letter)
    _report(connection, [{"id": dead_letter} for dead_letter in wanted], ("id",))


def _wanted(
    client: Client, queue: str, ids: tuple[str, ...], query: dict[str, str | None], *, everything: bool, again: bool
) -> list[str]:
    if bool(ids) == everything:
        raise click.UsageError("Name the dead letters, or say --all.")
    if ids:
        return list(ids)
    found = [
        dead_letter["id"] for dead_letter in _every(client, queue, query) if again or not dead_letter["replayed_at"]
    ]
    if not found:
        raise CliError("No dead letter matches.", Exit.NOTHING)
    return found


def _every(client: Client, queue: str, query: dict[str, str | None]) -> Iterator[Any]:
    cursor: str | None = None
    while True:
        page = client.listed(queue, "dead-letters", {**query, "limit": str(PAGE), "cursor": cursor})
        yield from page.items
        cursor = page.next
        if cursor is None:
            return


def _progress(dead_letters: list[str], doing: str) -> Iterator[str]:
    """The dead letters one by one, with a bar where somebody watches."""
    from rich.console import Console
    from rich.progress import track

    yield from track(dead_letters, doing, console=Console(stderr=True), transient=True)


def _report(connection: ApiConnection, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    print_json(rows) if connection.as_json else print_table(columns, rows)
