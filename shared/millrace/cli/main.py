"""`millrace`: the command line's entry point."""

from __future__ import annotations

import click

from millrace.cli import queues, work
from millrace.cli.completion import completion_command
from millrace.cli.dead_letters import dlq
from millrace.cli.definitions import compile_command, explain_command, format_command
from millrace.cli.doctor import dev_command, doctor_command
from millrace.cli.history import check_history_command
from millrace.cli.openapi import openapi_command
from millrace.cli.send import send_command
from millrace.cli.tokens import tokens


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="millrace")
def main() -> None:
    """Queues for webhooks and jobs: define, inspect, operate.

    \b
    Exit codes: 0 it is so · 1 refused or failed · 2 wrong usage · 3 nothing there · 4 stale claim
                5 access denied · 6 not now, try again
    """


main.add_command(compile_command)
main.add_command(format_command)
main.add_command(explain_command)
for command in (
    *work.COMMANDS,
    *queues.COMMANDS,
    dlq,
    tokens,
    send_command,
    openapi_command,
    completion_command,
    dev_command,
    doctor_command,
    check_history_command,
):
    main.add_command(command)
