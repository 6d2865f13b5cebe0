"""`millrace webhooks`: where each webhook is called, how it verifies, and why one cannot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from millrace.cli.connection import ApiConnection, Exit, remote
from millrace.cli.printing import print_json, print_table

COLUMNS = ("name", "path", "leads_to", "verified_by", "secrets", "status")


def _row(webhook: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **webhook,
        "leads_to": webhook["queue"] or webhook["command"],
        "secrets": ", ".join(webhook["secrets"]),
        "status": "cannot verify" if webhook["problem"] else "open" if webhook["verified_by"] == "none" else "ok",
    }


@click.command("webhooks")
@remote
def webhooks_command(connection: ApiConnection) -> None:
    """List the webhooks. Fails where one could not verify a call of the last hour, and says what to do."""
    with connection.client() as client:
        found = client.webhooks()
    print_json(found) if connection.as_json else print_table(COLUMNS, map(_row, found))
    troubled = [webhook for webhook in found if webhook["problem"]]
    for webhook in troubled:
        problem = webhook["problem"]
        said = f"{webhook['name']} cannot verify: {problem['says']} (since {problem['since']}, last {problem['last']})"
        click.echo(said, err=True)
    if troubled:
        raise SystemExit(Exit.FAILED)
