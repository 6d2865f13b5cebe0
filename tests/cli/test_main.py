"""Every command is explained and completed."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from millrace.cli.main import main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = CliRunner().invoke(main, ["completion", shell])
    assert done.exit_code == 0
    assert "_MILLRACE_COMPLETE" in done.output


def test_every_command_explains_itself() -> None:
    for name, command in main.commands.items():
        assert command.help, name
        assert "Usage" in command.get_help(click.Context(command, info_name=name))
