"""Commands on queues: `queues`, `watch`, `messages`, `claims`, `breakers`, `pause`, `resume`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from millrace.cli.connection import ApiConnection, remote
from millrace.cli.printing import print_facts, print_json, print_table, table_of

if TYPE_CHECKING:
    from rich.table import Table

    from millrace.client import Client

COLUMNS = (
    "name", "ordering", "depth", "ready", "scheduled", "in_flight", "dead_letters", "oldest", "in_per_min",
    "done_per_min", "status",
)  # fmt: skip
ENTRY_COLUMNS = (
    "message_id", "enqueued_at", "due_at", "owner", "priority", "key", "project", "attempts", "deliveries",
)  # fmt: skip
CLAIM_COLUMNS = ("message_id", "owner", "claimed_at", "lease_until", "attempts", "version")
_paging = (
    click.option("-n", "--limit", type=click.IntRange(1, 500), default=50, show_default=True),
    click.option("--cursor", help="The `next` of the page before."),
)


def _row(queue: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **queue,
        "oldest": f"{queue['oldest_age_ms'] / 1000:.0f} s" if queue["oldest_age_ms"] else None,
        "in_per_min": queue["arrived_per_minute"],
        "done_per_min": queue["done_per_minute"],
        "status": "paused" if queue["paused"] else "target down" if queue["breakers"] else "active",
    }


@click.command("queues")
@remote
def queues_command(connection: ApiConnection) -> None:
    """Every queue in numbers."""
    with connection.client() as client:
        found = client.queue_stats()
    print_json(found) if connection.as_json else print_table(COLUMNS, map(_row, found))


@click.command("watch")
@click.option("--every", type=click.FloatRange(0.1), default=2.0, show_default=True, help="Seconds between updates.")
@click.option("--times", type=click.IntRange(1), help="Number of updates; default: until Ctrl-C.")
@remote
def watch_command(connection: ApiConnection, every: float, times: int | None) -> None:
    """A live table of the queues."""
    from rich.live import Live

    def look(client: Client) -> Table:
        return table_of(COLUMNS, map(_row, client.queue_stats()), title=time.strftime("%H:%M:%S"))

    with connection.client() as client, Live(look(client), auto_refresh=False) as live:
        looks = 1
        while times is None or looks < times:
            try:
                time.sleep(every)
            except KeyboardInterrupt:
                return
            live.update(look(client), refresh=True)
            looks += 1


def _paged(command: Any) -> Any:
    for option in _paging:
        command = option(command)
    return command


def _list(
    connection: ApiConnection, queue: str, what: str, columns: tuple[str, ...], query: dict[str, str | None]
) -> None:
    with connection.client() as client:
        page = client.listed(queue, what, query)
    if connection.as_json:
        print_json({what: list(page.items), "next": page.next})
        return
    print_table(columns, page.items)
    if page.next:
        click.echo(f"More: --cursor {page.next}", err=True)


@click.command("messages")
@click.argument("queue")
@click.option("--lane", type=click.Choice(["every", "ready", "scheduled"]), default="every", show_default=True)
@_paged
@remote
def messages_command(connection: ApiConnection, queue: str, lane: str, limit: int, cursor: str | None) -> None:
    """List a queue's unfinished messages, next first: ready and held ones, then scheduled ones."""
    _list(connection, queue, "messages", ENTRY_COLUMNS, {"lane": lane, "limit": str(limit), "cursor": cursor})


@click.command("claims")
@click.argument("queue")
@click.option("--break", "message_id", metavar="MESSAGE_ID", help="Take this message from whoever holds it.")
@_paged
@remote
def claims_command(
    connection: ApiConnection, queue: str, message_id: str | None, limit: int, cursor: str | None
) -> None:
    """List a queue's claims: who holds which message, and until when; or break one."""
    if message_id is not None:
        with connection.client() as client:
            client.break_claim(queue, message_id)
        print_json({"broken": message_id}) if connection.as_json else print_facts({"broken": message_id})
        return
    _list(connection, queue, "claims", CLAIM_COLUMNS, {"limit": str(limit), "cursor": cursor})


@click.command("pause")
@click.argument("queue")
@remote
def pause_command(connection: ApiConnection, queue: str) -> None:
    """Pause a queue: it hands out nothing until it is resumed."""
    _set_paused(connection, queue, paused=True)


@click.command("resume")
@click.argument("queue")
@remote
def resume_command(connection: ApiConnection, queue: str) -> None:
    """Resume a paused queue."""
    _set_paused(connection, queue, paused=False)


def _set_paused(connection: ApiConnection, queue: str, *, paused: bool) -> None:
    with connection.client() as client:
        found = client.set_paused(queue, paused=paused)
    if connection.as_json:
        print_json(found)
    else:
        print_facts({name: found[name] for name in ("name", "paused", "depth")})


@click.command("breakers")
@click.argument("queue")
@click.option("--reset", metavar="TARGET", help="Close this target's breaker: it is called again at once.")
@click.option("--reset-all", is_flag=True, help="Close every breaker of the queue.")
@remote
def breakers_command(connection: ApiConnection, queue: str, *, reset: str | None, reset_all: bool) -> None:
    """List a queue's open circuit breakers: targets that are down, since when, and when each is probed next."""
    if reset is not None and reset_all:
        raise click.UsageError("--reset TARGET and --reset-all exclude each other: give one of them.")
    with connection.client() as client:
        if reset is not None or reset_all:
            client.reset_breakers(queue, reset)
        found = [one for one in client.queue_stats() if one["name"] == queue]
    if not found:
        raise click.ClickException(f"There is no queue {queue!r}.")
    breakers = found[0]["breakers"]
    columns = ("target", "since", "until", "failed_probes", "says")
    print_json(breakers) if connection.as_json else print_table(columns, breakers)


COMMANDS = (
    queues_command,
    watch_command,
    messages_command,
    claims_command,
    breakers_command,
    pause_command,
    resume_command,
)
