"""`millrace completion`: the line that teaches a shell our commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print a completion script: `eval "$(millrace completion bash)"`."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"{shell} is not known here.")
    click.echo(kind(context.find_root().command, {}, "millrace", "_MILLRACE_COMPLETE").source())
