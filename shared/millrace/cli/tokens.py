"""Commands on bearer tokens: `tokens create`, `tokens list`, `tokens revoke`.

They write to the queue table itself with AWS credentials: whoever may do that may create tokens. Where no table is
named, it is the one of the folder's local stack, whose credentials lie beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from millrace.cli.connection import CliError, Exit, output_option
from millrace.cli.local import find_local
from millrace.cli.printing import print_facts, print_json, print_table
from millrace.model.queue_spec import DEFAULT_TENANT

if TYPE_CHECKING:
    from millrace.model.tokens import Token, Tokens

HELP = "Set AWS_REGION, and AWS_PROFILE or credentials (`aws sts get-caller-identity` shows whether AWS takes them)."
SCOPES = ("enqueue", "consume", "read", "operate")


@click.group("tokens")
def tokens() -> None:
    """Bearer tokens: create, list, revoke. On AWS: needs --table and credentials for it."""


def _on_table(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the table's tokens as its first argument; what AWS lacks is said in a sentence."""

    @click.option("--table", envvar="QUEUE_TABLE", help="Name of the queue table; default: the local stack's.")
    @wraps(command)
    def on_table(table: str | None, **given: Any) -> Any:
        from millrace.model.errors import StoreUnavailable
        from millrace.stores.dynamodb.client import not_set_up

        try:
            return command(_store(table), **given)
        except not_set_up() as error:
            raise CliError(f"{error} {HELP}", Exit.DENIED) from error
        except StoreUnavailable as error:
            place = f"table {table}" if table else "the local stack's table (start it with `millrace dev`)"
            raise CliError(f"{error} Asked for {place}. {HELP if table else ''}".rstrip(), Exit.NOT_NOW) from error

    return output_option(on_table)


def _store(table: str | None) -> Tokens:
    from millrace.stores.dynamodb.client import dynamodb_client
    from millrace.stores.dynamodb.tokens import DynamoTokens

    if table is not None:
        return DynamoTokens(dynamodb_client(region=os.environ.get("AWS_REGION")), table)
    local = find_local()
    kept = local.table if local else None
    if kept is None:
        raise click.UsageError(
            "Name the queue table with --table (the stack's output QueueTableName), or start a local stack."
        )
    client = dynamodb_client(
        endpoint_url=kept.endpoint_url, region=kept.region, keys=(kept.access_key, kept.secret_key)
    )
    return DynamoTokens(client, kept.name)


TENANT_HELP = "May be repeated; * for all. By default MILLRACE_TENANT, else the local stack's default tenant."


def _default_tenant() -> str:
    """The local stack's; nothing tells that of a deployment, so there it is the template's own default."""
    elsewhere = click.get_current_context().params.get("table")
    local = None if elsewhere else find_local()
    kept = local.table if local else None
    return kept.default_tenant if kept else DEFAULT_TENANT


@tokens.command("create")
@click.argument("name")
@click.option("-s", "--scope", "scopes", multiple=True, required=True, type=click.Choice(SCOPES))
@click.option("-t", "--tenant", "tenants", multiple=True, envvar="MILLRACE_TENANT", help=TENANT_HELP)
@click.option("-q", "--queue", "queues", multiple=True, help="Only this queue; may be repeated. By default every one.")
@click.option("--days", type=click.FloatRange(0, min_open=True), help="Days until it expires; by default never.")
@_on_table
def create_command(
    store: Tokens,
    name: str,
    scopes: tuple[str, ...],
    tenants: tuple[str, ...],
    queues: tuple[str, ...],
    days: float | None,
    output: str,
) -> None:
    """Create a token. Its text is shown only once."""
    from millrace.model.clock import DAY, system_clock
    from millrace.model.errors import InvalidRequest
    from millrace.model.tokens import Scope, issue

    expires_at = 0 if days is None else system_clock() + round(days * DAY)
    try:
        token, text = issue(
            store,
            name=name,
            scopes=[Scope(scope) for scope in scopes],
            tenants=tenants or (_default_tenant(),),
            clock=system_clock,
            expires_at=expires_at,
            queues=queues,
        )
    except InvalidRequest as error:
        raise click.ClickException(str(error)) from error
    facts = {"token": text, **_shown(token)}
    print_json(facts) if output == "json" else print_facts(facts)


@tokens.command("list")
@_on_table
def list_command(store: Tokens, output: str) -> None:
    """List tokens, without their secrets."""
    rows = [_shown(token) for token in store.list_tokens()]
    columns = ("id", "name", "scopes", "tenants", "queues", "created_at", "expires_at", "revoked_at")
    print_json(rows) if output == "json" else print_table(columns, rows)


@tokens.command("revoke")
@click.argument("token_id")
@_on_table
def revoke_command(store: Tokens, token_id: str, output: str) -> None:
    """Revoke a token: it is refused from now on."""
    from millrace.model.clock import system_clock
    from millrace.model.errors import NotFound
    from millrace.model.tokens import revoke

    try:
        facts = _shown(revoke(store, token_id, system_clock()))
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
        "queues": list(token.queues) or ["*"],
        "created_at": rfc3339(token.created_at),
        "expires_at": rfc3339(token.expires_at),
        "revoked_at": rfc3339(token.revoked_at),
    }
