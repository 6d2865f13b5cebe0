"""Which commands an app registers, without its modules leaving anything behind here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from millrace.app.registered import CommandsBroken, app_path, command_modules, registered_commands
from tests.app.apps import make

OTHER = 'from millrace import command\n@command("Other.Do")\ndef do(given): ...\n'


def test_every_module_of_the_commands_package_is_found_deep_ones_too(tmp_path: Path) -> None:
    app = make(tmp_path, {"commands/more/__init__.py": "", "commands/more/other.py": OTHER})
    assert registered_commands(app, os.environ) == ["Order.Ship", "Other.Do"]
    assert "commands" not in sys.modules


def test_commands_and_pythonpath_of_the_shell_are_honoured(tmp_path: Path) -> None:
    app = make(tmp_path / "app")
    elsewhere = make(tmp_path / "elsewhere", {"mine/__init__.py": OTHER}).root
    environment = {**os.environ, "COMMANDS": "mine , commands.orders", "PYTHONPATH": str(elsewhere)}
    assert registered_commands(app, environment) == ["Order.Ship", "Other.Do"]
    assert command_modules(environment) == ["mine", "commands.orders"]
    assert app_path(app, environment).split(os.pathsep)[:2] == [str(app.root), str(elsewhere)]


def test_an_app_without_commands_registers_none(tmp_path: Path) -> None:
    app = make(tmp_path)
    (app.root / "commands" / "orders.py").unlink()
    assert registered_commands(app, os.environ) == []


def test_an_import_that_fails_is_named_with_its_place_and_a_remedy(tmp_path: Path) -> None:
    app = make(tmp_path, {"commands/bad.py": "\nimport weasel_word\n"})
    with pytest.raises(CommandsBroken) as broken:
        registered_commands(app, os.environ)
    assert "No module named 'weasel_word'" in str(broken.value)
    assert "commands/bad.py:2" in str(broken.value)
    assert "requirements.txt" in str(broken.value)
    assert "Traceback" not in str(broken.value)


def test_a_command_registered_twice_is_said(tmp_path: Path) -> None:
    app = make(
        tmp_path, {"commands/again.py": 'from millrace import command\n@command("Order.Ship")\ndef other(x): ...\n'}
    )
    with pytest.raises(CommandsBroken, match=r"'Order.Ship' is registered twice"):
        registered_commands(app, os.environ)


def test_a_module_that_ends_the_process_is_an_error_too(tmp_path: Path) -> None:
    app = make(tmp_path, {"commands/bad.py": "import sys; sys.exit(3)"})
    with pytest.raises(CommandsBroken, match="ended with 3"):
        registered_commands(app, os.environ)
