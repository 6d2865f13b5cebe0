"""Following a message to its end: each state that it is seen in, with times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from millrace.cli.connection import CliError, Exit
from millrace.cli.printing import plain

if TYPE_CHECKING:
    from millrace.client import Client

#: Nothing more happens to a message in one of these; the exit code that says so.
ENDS = {"done": Exit.OK, "filtered": Exit.OK, "dead": Exit.FAILED, "purged": Exit.FAILED}
COLOURS = {"done": "green", "dead": "red", "purged": "red", "scheduled": "yellow", "in_flight": "cyan"}
#: Between two looks: soon at first, so that a quick message is not waited for.
FIRST_LOOK_S, MAX_LOOK_S = 0.05, 1.0


def follow(
    client: Client,
    queue: str,
    message_id: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[Mapping[str, Any], Exit]:
    """Look at a message until it ends and say each change on standard error: the message, and done or dead."""
    began, pause, seen = clock(), FIRST_LOOK_S, None
    while True:
        found = client.status(queue, message_id)
        state = _state(found)
        if state != seen:
            seen, pause = state, FIRST_LOOK_S
            shown = click.style(f"{found['status']:9}", fg=COLOURS.get(found["status"]))
            click.echo(
                f"{time.strftime('%H:%M:%S')} {clock() - began:7.2f} s  {shown} {plain(_details(found))}".rstrip(),
                err=True,
            )
        if found["status"] in ENDS:
            return found, ENDS[found["status"]]
        sleep(pause)
        pause = min(pause * 1.5, MAX_LOOK_S)


def follow_by_id(client: Client, message_id: str) -> tuple[Mapping[str, Any], Exit]:
    """The same where only the id is known. Raises CliError where nothing is found."""
    found = client.search(message_id)["found"]
    if not found:
        raise CliError(f"There is no message {message_id!r} in this tenant.", Exit.NOTHING)
    return follow(client, found[0]["queue"], message_id)


def _state(found: Mapping[str, Any]) -> tuple[Any, ...]:
    entry = found["entry"] or {}
    return found["status"], entry.get("attempts"), entry.get("deliveries"), entry.get("due_at")


def _details(found: Mapping[str, Any]) -> str:
    """Who holds it, when it is due, what failed last, what came of it."""
    entry, history, dead_letter = found["entry"] or {}, found["history"], found["dead_letter"]
    last = history[-1] if history else None
    failed = f"after attempt {last['number']}: {last['error_type']} {last['error']}".rstrip() if last else ""
    match found["status"]:
        case "in_flight":
            return f"attempt {entry['attempts'] + 1} by {entry['owner']}"
        case "scheduled":
            return f"due {entry['due_at']} {failed}"
        case "dead" if dead_letter is not None:
            return f"{dead_letter['reason']}: {dead_letter['error_type']} {dead_letter['error']}"
        case "done" if "result" in found:
            return f"result {found['result']}"
        case _:
            return failed
