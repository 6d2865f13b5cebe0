"""`millrace secrets`: what the app's webhooks verify with, on this machine or on AWS."""

from __future__ import annotations

import os
import secrets as random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from millrace.app.compile import NotCompiled, write_definitions
from millrace.app.registered import CommandsBroken
from millrace.app.secrets import SECRETS, LocalSecrets, secret_names, stack_of
from millrace.cli.app import this_app
from millrace.cli.printing import print_table

Function = TypeVar("Function", bound=Callable[..., Any])


class Kept(Protocol):
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
    """Set and list the secrets that webhooks verify with.

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


def _place(stage: str | None, stack: str | None, home: Path | None) -> Kept:
    app = this_app()
    if stage and not stack:
        try:
            stack = stack_of(app, stage)
        except LookupError as missing:
            raise click.ClickException(str(missing.args[0])) from missing
    if not stack:
        return LocalSecrets((home or app.home) / SECRETS)
    from millrace.aws.stored_secrets import StoredSecrets

    return StoredSecrets(f"{stack}/webhooks")


@secrets.command("set")
@click.argument("name")
@click.option("--generate", is_flag=True, help="Make one up and print it, to give to the provider.")
@where_options
def set_command(name: str, stage: str | None, stack: str | None, home: Path | None, *, generate: bool) -> None:
    """Store the secret NAME, read from the prompt or from standard input; never from the command line."""
    known = _names()
    if name not in known:
        listed = ", ".join(sorted(known)) or "none"
        click.echo(f'note: no webhook of this app has `secret_env: "{name}"`. Named are: {listed}.', err=True)
    if generate:
        value = random.token_urlsafe(36)
        click.echo(value)
    elif sys.stdin.isatty():
        value = click.prompt(name, hide_input=True)
    else:
        value = sys.stdin.read().rstrip("\r\n")
    if not value:
        raise click.ClickException("The secret is empty: nothing was stored.")
    place = _place(stage, stack, home)
    place.write({**place.read(), name: value})
    click.echo(f"{name} is set.", err=True)


@secrets.command("unset")
@click.argument("name")
@where_options
def unset_command(name: str, stage: str | None, stack: str | None, home: Path | None) -> None:
    """Forget the secret NAME: its webhook refuses everything from then on."""
    place = _place(stage, stack, home)
    held = place.read()
    if name not in held:
        raise click.ClickException(f"{name} is not set.")
    place.write({kept: value for kept, value in held.items() if kept != name})
    click.echo(f"{name} is forgotten.", err=True)


@secrets.command("list")
@where_options
def list_command(stage: str | None, stack: str | None, home: Path | None) -> None:
    """Which secrets the app needs and which are set; never their values."""
    held, named = _place(stage, stack, home).read(), _names()
    rows = [
        {"secret": name, "state": _state(held, name), "note": "" if name in named else "no webhook names it"}
        for name in sorted({*held, *named})
    ]
    print_table(("secret", "state", "note"), rows)
    if any(not held.get(name) for name in named):
        raise SystemExit(1)


def _state(held: dict[str, str], name: str) -> str:
    return "set" if held.get(name) else "missing"


def _names() -> set[str]:
    try:
        return secret_names(write_definitions(this_app(), os.environ))
    except (NotCompiled, CommandsBroken) as failed:
        raise click.ClickException(str(failed)) from failed
