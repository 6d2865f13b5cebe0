"""`millrace schedules`: what is enqueued by the clock, when it last was and when it next will be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from millrace.cli.connection import ApiConnection, remote
from millrace.cli.printing import print_json, print_table

COLUMNS = ("name", "queue", "cron", "timezone", "catch_up", "last", "message_id", "next_run")


def _row(schedule: Mapping[str, Any]) -> dict[str, Any]:
    last = schedule["last_run"] or {"tick": "", "message_id": ""}
    return {**schedule, "last": last["tick"], "message_id": last["message_id"], "next_run": schedule["next_run"] or ""}


@click.command("schedules")
@remote
def schedules_command(connection: ApiConnection) -> None:
    """List the schedules, with the last run and the next of each."""
    with connection.client() as client:
        found = client.schedules()
    print_json(found) if connection.as_json else print_table(COLUMNS, map(_row, found))
