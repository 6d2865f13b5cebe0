"""`millrace`: the command line's entry point."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from millrace.cli import messages, operate, queues
from millrace.cli.app import build_command, deploy_command, dev_command, new_command, test_command
from millrace.cli.bulk import bulk_command
from millrace.cli.dead_letters import dlq
from millrace.cli.definitions import compile_command, explain_command, format_command
from millrace.cli.doctor import doctor_command
from millrace.cli.erase import erase_command
from millrace.cli.history import check_history_command
from millrace.cli.items import items_group
from millrace.cli.openapi import openapi_command
from millrace.cli.replay import replay_window_command
from millrace.cli.schedules import schedules_command
from millrace.cli.secrets import secrets
from millrace.cli.send import send_command
from millrace.cli.tokens import tokens
from millrace.cli.webhooks import webhooks_command
from millrace.cli.work import work_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="millrace")
def main() -> None:
    """Queues for webhooks and jobs: define, inspect, operate.

    \b
    Exit codes: 0 success · 1 refused or failed · 2 wrong usage · 3 not found, or no message · 4 stale claim
                5 access denied · 6 busy or no answer: try again
    """


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print a completion script: `eval "$(millrace completion bash)"`."""
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"{shell} is not supported.")
    click.echo(kind(context.find_root().command, {}, "millrace", "_MILLRACE_COMPLETE").source())


for command in (
    new_command,
    dev_command,
    test_command,
    build_command,
    deploy_command,
    bulk_command,
    items_group,
    secrets,
    compile_command,
    format_command,
    explain_command,
    *messages.COMMANDS,
    *queues.COMMANDS,
    *operate.COMMANDS,
    replay_window_command,
    erase_command,
    work_command,
    dlq,
    tokens,
    send_command,
    schedules_command,
    webhooks_command,
    openapi_command,
    completion_command,
    doctor_command,
    check_history_command,
):
    main.add_command(command)
