"""`python -m millrace.app.registered MODULES`: prints the commands that these modules register, as JSON.

A process of its own: an app's modules may do anything when they are imported, and must not leave it behind here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping

from millrace.app.bundle import python_path
from millrace.app.layout import App

DEFAULT_MODULES = "commands"


class CommandsBroken(Exception):
    """A module of commands cannot be imported; says which and why."""


def command_modules(environment: Mapping[str, str]) -> list[str]:
    """What COMMANDS names, else the app's own package."""
    return [name.strip() for name in (environment.get("COMMANDS") or DEFAULT_MODULES).split(",") if name.strip()]


def app_path(app: App, environment: Mapping[str, str]) -> str:
    """PYTHONPATH for the app's code: the app first, then what the shell says, then the bundle."""
    given = [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part]
    return os.pathsep.join([str(app.root), *given, *python_path()])


def registered_commands(app: App, environment: Mapping[str, str]) -> list[str]:
    """The names that the app's modules register. Raises CommandsBroken. Costs a process."""
    modules = command_modules(environment)
    if modules == [DEFAULT_MODULES] and not any((app.root / DEFAULT_MODULES).rglob("*.py")):
        return []
    done = subprocess.run(
        [sys.executable, "-m", "millrace.app.registered", *modules],
        env={**environment, "PYTHONPATH": app_path(app, environment)},
        cwd=app.root,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandsBroken(done.stderr.strip() or f"Importing {', '.join(modules)} ended with {done.returncode}.")
    names: list[str] = json.loads(done.stdout.splitlines()[-1])
    return names


def import_all(modules: Iterable[str]) -> list[str]:
    """Import modules that register commands. Raises CommandsBroken with the place in the app's code."""
    from millrace.worker.commands import load_commands

    names: list[str] = []
    for module in modules:
        try:
            names = list(load_commands([module]).names)
        except Exception as error:
            raise CommandsBroken(_described(module, error)) from error
    return names


def _described(module: str, error: Exception) -> str:
    import traceback

    place = traceback.extract_tb(error.__traceback__)[-1]
    said = f"{type(error).__name__}: {error}"
    hint = ""
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] != module.split(".")[0]:
        hint = f" Name the package that brings `{error.name}` in requirements.txt and install it."
    return f"The commands in `{module}` cannot be imported: {said} ({place.filename}:{place.lineno}).{hint}"


if __name__ == "__main__":
    try:
        print(json.dumps(import_all(sys.argv[1:])))  # noqa: T201 (its whole purpose)
    except CommandsBroken as broken:
        sys.exit(str(broken))
