"""`millrace secrets`: what the app's webhooks verify with and its targets sign with, on this machine or on AWS."""

from __future__ import annotations

import os
import secrets as random
import sys
from base64 import b64encode
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from millrace.app.compile import NotCompiled, write_definitions
from millrace.app.registered import CommandsBroken
from millrace.app.secrets import SECRETS, LocalSecrets, secret_names, stack_of
from millrace.cli.app import this_app
from millrace.cli.printing import print_table

WEBHOOKS, TARGETS = "webhooks", "targets"
Function = TypeVar("Function", bound=Callable[..., Any])


class SecretPlace(Protocol):
    """A place that keeps secrets by name."""

    def read(self) -> dict[str, str]: ...
    def write(self, held: dict[str, str], /) -> None: ...


class _Group(click.Group):
    """Says what AWS refused as a sentence."""

    def invoke(self, context: click.Context) -> Any:
        from millrace.aws.stored_secrets import SecretsUnreachable

        try:
            return super().invoke(context)
        except SecretsUnreachable as refused:
            raise click.ClickException(str(refused)) from refused


@click.group("secrets", cls=_Group)
def secrets() -> None:
    """Set and list the secrets that webhooks verify with and `http` targets sign with.

    Without --env or --stack: those of the local stack, which count at once. On AWS a new one counts within a minute.
    """


def where_options(function: Function) -> Function:
    """Which stack is meant; none of them: the local one."""
    for option in (
        click.option("--env", "stage", help="The stack of this section of samconfig.toml."),
        click.option("--stack", help="The stack's name."),
        click.option("--home", type=click.Path(file_okay=False, path_type=Path), help="The local stack's folder."),
    ):
        function = option(function)
    return function


def _places(uses: Iterable[str], stage: str | None, stack: str | None, home: Path | None) -> list[SecretPlace]:
    """Where secrets of these uses are kept: here all in one file, on AWS apart, since other functions read them."""
    app = this_app()
    if stage and not stack:
        try:
            stack = stack_of(app, stage)
        except LookupError as missing:
            raise click.ClickException(str(missing.args[0])) from missing
    if not stack:
        return [LocalSecrets((home or app.home) / SECRETS)]
    from millrace.aws.stored_secrets import StoredSecrets

    return [StoredSecrets(f"{stack}/{use}") for use in uses]


@secrets.command("set")
@click.argument("name")
@click.option("--generate", is_flag=True, help="Make one up and print it, to give to the provider.")
@where_options
def set_command(name: str, stage: str | None, stack: str | None, home: Path | None, *, generate: bool) -> None:
    """Store the secret NAME, read from the prompt or from standard input; never from the command line."""
    known = _names()
    uses = [use for use, names in known.items() if name in names]
    if not uses:
        listed = ", ".join(sorted(set().union(*known.values()))) or "none"
        click.echo(f'note: nothing in this app has `secret_env: "{name}"`. Named are: {listed}.', err=True)
    if generate:
        value = _made_up(uses)
        click.echo(value)
    elif sys.stdin.isatty():
        value = click.prompt(name, hide_input=True)
    else:
        value = sys.stdin.read().rstrip("\r\n")
    if not value:
        raise click.ClickException("The secret is empty: nothing was stored.")
    for place in _places(uses or [WEBHOOKS], stage, stack, home):
        place.write({**place.read(), name: value})
    click.echo(f"{name} is set.", err=True)


def _made_up(uses: list[str]) -> str:
    """A secret as its use takes it: targets sign as Standard Webhooks, whose secrets are base64."""
    return f"whsec_{b64encode(random.token_bytes(32)).decode()}" if TARGETS in uses else random.token_urlsafe(36)


@secrets.command("unset")
@click.argument("name")
@where_options
def unset_command(name: str, stage: str | None, stack: str | None, home: Path | None) -> None:
    """Forget the secret NAME: its webhook refuses everything from then on, its target is not called."""
    found = [(place, place.read()) for place in _places(_uses(_names()), stage, stack, home)]
    if not any(name in held for _, held in found):
        raise click.ClickException(f"{name} is not set.")
    for place, held in found:
        if name in held:
            place.write({kept: value for kept, value in held.items() if kept != name})
    click.echo(f"{name} is forgotten.", err=True)


@secrets.command("list")
@where_options
def list_command(stage: str | None, stack: str | None, home: Path | None) -> None:
    """Which secrets the app needs and which are set; never their values."""
    known = _names()
    named = set().union(*known.values())
    held: dict[str, str] = {}
    for place in _places(_uses(known), stage, stack, home):
        held |= place.read()
    rows = [
        {"secret": name, "state": _state(held, name), "note": "" if name in named else "nothing names it"}
        for name in sorted({*held, *named})
    ]
    print_table(("secret", "state", "note"), rows)
    if any(not held.get(name) for name in named):
        raise SystemExit(1)


def _state(held: dict[str, str], name: str) -> str:
    return "set" if held.get(name) else "missing"


def _uses(known: dict[str, set[str]]) -> list[str]:
    """Those whose place must be asked: that of the targets only where a target names a secret."""
    return [use for use, names in known.items() if names or use == WEBHOOKS]


def _names() -> dict[str, set[str]]:
    try:
        return secret_names(write_definitions(this_app(), os.environ))
    except (NotCompiled, CommandsBroken) as failed:
        raise click.ClickException(str(failed)) from failed
