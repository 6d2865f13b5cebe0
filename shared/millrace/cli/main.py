"""`millrace`: the command line's entry point."""

from __future__ import annotations

import click

from millrace.cli.definitions import compile_command, explain_command, format_command
from millrace.cli.openapi import openapi_command


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="millrace")
def main() -> None:
    """Queues for webhooks and jobs: define, inspect, operate."""


main.add_command(compile_command)
main.add_command(format_command)
main.add_command(explain_command)
main.add_command(openapi_command)
