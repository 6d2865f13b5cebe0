"""Every command is explained and completed."""

from __future__ import annotations

import importlib
import sys

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


@pytest.mark.parametrize("package", ["click", "rich", "httpx"])
def test_a_package_that_is_not_installed_is_named_with_the_line_that_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an install without its dependencies leaves it: what the command imports is not there."""
    for name in [name for name in sys.modules if name.partition(".")[0] in (package, "millrace")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(sys, "argv", ["millrace", "queues", "--token", "x", "--url", "http://127.0.0.1:9"])
    if package == "rich":
        monkeypatch.setattr(sys, "argv", ["millrace", "explain", "WebhookIngress"])
    with pytest.raises(SystemExit) as ended:
        importlib.import_module("millrace.cli.__main__").run()
    assert ended.value.code == f"Error: {package} is not installed: pip install --upgrade millrace"
