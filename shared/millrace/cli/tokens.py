"""Commands on bearer tokens: `tokens create`, `tokens list`, `tokens revoke`.

They write to the queue table itself with AWS credentials: whoever may do that may create tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from millrace.cli.connection import CliError, Exit, output_option
from millrace.cli.printing import print_facts, print_json, print_table

if TYPE_CHECKING:
    from millrace.model.tokens import Token, Tokens

SCOPES = ("enqueue", "consume", "read", "operate")


@click.group("tokens")
def tokens() -> None:
    """Bearer tokens: create, list, revoke. Needs AWS credentials for the queue table."""


def _on_table(command: Callable[..., Any]) -> Callable[..., Any]:
    table = click.option("--table", envvar="QUEUE_TABLE", required=True, help="Name of the queue table.")
    return table(output_option(command))


def _store(table: str) -> Tokens:
    from millrace.stores.dynamodb.client import dynamodb_client
    from millrace.stores.dynamodb.tokens import DynamoTokens

    return DynamoTokens(dynamodb_client(), table)


@tokens.command("create")
@click.argument("name")
@click.option("-s", "--scope", "scopes", multiple=True, required=True, type=click.Choice(SCOPES))
@click.option("-t", "--tenant", "tenants", multiple=True, default=("default",), show_default=True, help="* for all.")
@click.option("--days", type=click.FloatRange(0, min_open=True), help="Days until it expires; by default never.")
@_on_table
def create_command(
    name: str, scopes: tuple[str, ...], tenants: tuple[str, ...], days: float | None, table: str, output: str
) -> None:
    """Create a token. Its text is shown only once."""
    from millrace.model.clock import DAY, system_clock
    from millrace.model.errors import MillraceError
    from millrace.model.tokens import Scope, issue

    expires_at = 0 if days is None else system_clock() + round(days * DAY)
    try:
        token, text = issue(
            _store(table),
            name=name,
            scopes=[Scope(scope) for scope in scopes],
            tenants=tenants,
            clock=system_clock,
            expires_at=expires_at,
        )
    except MillraceError as error:
        raise click.ClickException(str(error)) from error
    facts = {"token": text, **_shown(token)}
    print_json(facts) if output == "json" else print_facts(facts)


@tokens.command("list")
@_on_table
def list_command(table: str, output: str) -> None:
    """List tokens, without their secrets."""
    rows = [_shown(token) for token in _store(table).list_tokens()]
    columns = ("id", "name", "scopes", "tenants", "created_at", "expires_at", "revoked_at")
    print_json(rows) if output == "json" else print_table(columns, rows)


@tokens.command("revoke")
@click.argument("token_id")
@_on_table
def revoke_command(token_id: str, table: str, output: str) -> None:
    """Revoke a token: it is refused from now on."""
    from millrace.model.clock import system_clock
    from millrace.model.errors import NotFound
    from millrace.model.tokens import revoke

    try:
        facts = _shown(revoke(_store(table), token_id, system_clock()))
    except NotFound as error:
        raise CliError(str(error), Exit.NOTHING) from error
    print_json(facts) if output == "json" else print_facts(facts)


def _shown(token: Token) -> dict[str, Any]:
    from millrace.http.fields import rfc3339

    return {
        "id": token.id,
        "name": token.name,
        "scopes": sorted(token.scopes),
        "tenants": list(token.tenants),
        "created_at": rfc3339(token.created_at),
        "expires_at": rfc3339(token.expires_at),
        "revoked_at": rfc3339(token.revoked_at),
    }
