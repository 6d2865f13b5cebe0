"""`millrace items`: a folder of markdown work items as a queue, by its files alone."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from millrace.cli.connection import ApiConnection, CliError, Exit, output_option, remote
from millrace.cli.printing import print_json, print_table
from millrace.items.claims import (
    EnqueuedItems,
    ItemFilter,
    claim_items,
    finish_item,
    not_enqueued,
    ready_items,
    release_item,
)
from millrace.items.fields import ItemState
from millrace.items.folder import WorkItem, as_json, find_cycles, read_folder
from millrace.items.front_matter import Malformed
from millrace.items.locks import LOST_AFTER_S, Holder, LockHeld, Locks, holder_of

if TYPE_CHECKING:
    from millrace.client import Client

_folder = click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
_id = click.argument("id_", metavar="ID")
_token = click.option("--token", envvar="MILLRACE_ITEM_TOKEN", help="Of the claim. Default: MILLRACE_ITEM_TOKEN.")
_pid = click.option("--pid", type=int, help="The process that works on it. Default: the one that called this command.")
_lost_after = click.option(
    "--lost-after",
    type=click.FloatRange(1),
    default=LOST_AFTER_S,
    show_default=True,
    help="Seconds after which a claim on another host counts as lost.",
)


def _filters(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--project", help="Only items of this project."),
        click.option("-l", "--label", "labels", multiple=True, help="Only items with this label; may be repeated."),
    ):
        command = option(command)
    return command


@click.group("items")
def items_group() -> None:
    """Work items: markdown files with front matter (id, status, priority, depends_on, project, labels).

    \b
    An item is ready when its file says `status: pending`, every dependency's file says `done`, and nobody holds it.
    Claims are files below FOLDER/.millrace; one whose process is gone is lost, and the next claim takes it over.
    """


@items_group.command("list")
@_folder
@_filters
@click.option("--state", type=click.Choice([state.value for state in ItemState]))
@_lost_after
@output_option
def list_command(
    folder: Path, project: str | None, labels: tuple[str, ...], state: str | None, lost_after: float, output: str
) -> None:
    """Every item with its state, what it waits for, and who holds it."""
    locks = Locks(folder, lost_after_s=lost_after).read()
    every = read_folder(folder)
    asked = project is not None or bool(labels)
    found = [
        as_json(item, asdict(lock) | {"token": None} if (lock := locks.get(item.id)) else None)
        for item in every
        if (not asked or item.matches(project, labels)) and state in (None, item.state.value)
    ]
    if output == "json":
        print_json({"items": found, "cycles": find_cycles(every)})
        return
    print_table(("id", "state", "priority", "project", "held_by", "reason", "file"), map(_shown, found))
    for cycle in find_cycles(every):
        click.echo(f"cycle: {', '.join(cycle)}")


def _shown(item: dict[str, Any]) -> dict[str, Any]:
    lock = item["lock"]
    return {**item, "held_by": f"{lock['host']} {lock['pid']}" if lock else None}


@items_group.command("ready")
@_folder
@_filters
@_lost_after
@output_option
def ready_command(folder: Path, project: str | None, labels: tuple[str, ...], lost_after: float, output: str) -> None:
    """What may be claimed now, in its order: highest priority first, then by path."""
    found = ready_items(folder, Locks(folder, lost_after_s=lost_after), ItemFilter(project, labels))
    if output == "json":
        print_json({"items": [as_json(item) for item in found]})
    else:
        print_table(("id", "priority", "project", "labels", "file"), map(as_json, found))


@items_group.command("claim")
@_folder
@_filters
@click.option("--id", "wanted", help="This item and no other.")
@click.option("-n", "--limit", type=click.IntRange(1, 100), default=1, show_default=True)
@_pid
@_lost_after
@output_option
def claim_command(
    folder: Path,
    project: str | None,
    labels: tuple[str, ...],
    wanted: str | None,
    limit: int,
    pid: int | None,
    lost_after: float,
    output: str,
) -> None:
    """Take the next items that are ready, and print them with the claim's token. Exit code 3 where there is none."""
    locks = Locks(folder, lost_after_s=lost_after)
    claimed = claim_items(folder, locks, _holder(pid), ItemFilter(project, labels, wanted), limit)
    found = [{**as_json(one.item), "token": one.lock.token, "item": json.loads(one.item.document)} for one in claimed]
    if output == "json":
        print_json({"items": found})
    elif found:
        print_table(("id", "token", "priority", "project", "file"), found)
    if not found:
        raise CliError("Nothing is ready.", Exit.NOTHING)


@items_group.command("done")
@_folder
@_id
@_token
@_pid
def done_command(folder: Path, id_: str, token: str | None, pid: int | None) -> None:
    """Write `status: done` into a claimed item's file, and give up the claim. Exit code 4 where the claim was lost."""
    try:
        finish_item(folder, Locks(folder), _holder(pid), id_, token)
    except LockHeld as error:
        raise CliError(str(error), Exit.STALE) from error
    except Malformed as error:
        raise CliError(f"{id_}: {error}.", Exit.FAILED) from error
    click.echo(f"{id_} is done.")


@items_group.command("release")
@_folder
@_id
@_token
@_pid
def release_command(folder: Path, id_: str, token: str | None, pid: int | None) -> None:
    """Give a claimed item back as it is. Exit code 4 where the claim was lost."""
    try:
        release_item(Locks(folder), _holder(pid), id_, token)
    except LockHeld as error:
        raise CliError(str(error), Exit.STALE) from error
    click.echo(f"{id_} is given back.")


@items_group.command("enqueue")
@_folder
@click.option("-q", "--queue", required=True, help="Where the items go.")
@_filters
@click.option("--watch", is_flag=True, help="Go on, and enqueue what becomes ready.")
@click.option("--every", type=click.FloatRange(0.1), default=5.0, show_default=True, help="Seconds between two looks.")
@remote
def enqueue_items_command(
    connection: ApiConnection,
    folder: Path,
    queue: str,
    project: str | None,
    labels: tuple[str, ...],
    *,
    watch: bool,
    every: float,
) -> None:
    """Enqueue what is ready, once for each id and revision: as the bulk job's `derive` does, without Spark.

    An item that the queue refuses is told, and holds nothing up: exit code 1 in the end, or with --watch another try
    when its file has changed.
    """
    only = ItemFilter(project, labels)
    with connection.client() as client:
        if watch:
            watch_folder(client, folder, queue, only, lambda: time.sleep(every))
        refused: dict[str, str] = {}
        enqueue_ready(client, folder, queue, only, refused)
        if refused:
            raise CliError(f"The queue refused {len(refused)} of them.", Exit.FAILED)


def watch_folder(client: Client, folder: Path, queue: str, only: ItemFilter, wait: Callable[[], object]) -> NoReturn:
    """Look at the folder for ever. A server that is away for a while is waited for."""
    from millrace.client import Busy, Unreachable

    refused: dict[str, str] = {}
    while True:
        try:
            enqueue_ready(client, folder, queue, only, refused)
        except (Busy, Unreachable) as error:
            click.echo(f"{error} Trying again.", err=True)
        wait()


def enqueue_ready(client: Client, folder: Path, queue: str, only: ItemFilter, refused: dict[str, str]) -> None:
    """One look at the folder: enqueue every item that is ready, not held here, and not handed over yet.

    Noted after the queue has answered: a crash before that sends it again, under the same idempotency key. What the
    queue refuses is kept in `refused`, and not sent again as it is.
    """
    from millrace.client import BadRequest, IdempotencyConflict

    enqueued = EnqueuedItems(folder, queue)
    for item in not_enqueued(ready_items(folder, Locks(folder), only), enqueued):
        if refused.get(item.id) == item.document:
            continue
        try:
            receipt = _enqueue(client, queue, item)
        except (BadRequest, IdempotencyConflict) as error:
            refused[item.id] = item.document
            click.echo(f"{item.id}: {error}", err=True)
            continue
        enqueued.add(item.fields.idempotency_key if item.fields else item.id)
        click.echo(f"{item.id} → {receipt.message_id}{' (was there)' if receipt.duplicate else ''}")


def _enqueue(client: Client, queue: str, item: WorkItem) -> Any:
    fields = item.fields
    assert fields is not None  # noqa: S101 (ready items have their fields)
    priority = fields.priority
    return client.enqueue(
        queue,
        item.document.encode(),
        content_type="application/json",
        idempotency_key=fields.idempotency_key,
        priority=int(priority) if priority and priority.isdecimal() else priority,
        project=fields.project,
        labels=list(fields.labels) if fields.labels is not None else None,
    )


def _holder(pid: int | None) -> Holder:
    """Who works: this command is over at once, so it is the process that called it."""
    return holder_of(os.getppid() if pid is None else pid)
