"""Whether an artifact can do what its app wants: every command is imported inside it, with nothing beside it."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from infra.build.requirements import CannotBuild, names_of
from millrace.app.layout import App
from millrace.app.registered import command_modules

#: botocore without the descriptions of services that the bundle does not call is only half of it.
_SDK = ("boto3", "botocore")
_IMPORT = """
import sys
sys.path.insert(0, {artifact!r})
import functions.worker.handler
from millrace.worker.commands import load_commands
load_commands({modules!r})
"""


def demand_declared_sdk(app: App) -> None:
    """Code that imports boto3 must say so in requirements.txt, or `boto3.client("ses")` would fail on AWS only."""
    if names_of(app.requirements) & set(_SDK):
        return
    for path, line, name in _imports(app):
        if name in _SDK:
            raise CannotBuild(
                f"{path.relative_to(app.root)}:{line} imports {name}: add `boto3` to requirements.txt, so that the "
                "artifact keeps every AWS service and not only those that Millrace itself calls."
            )


def _imports(app: App) -> Iterator[tuple[Path, int, str]]:
    """Every package that the app's code imports, with its place."""
    for part in app.code():
        for path in [part] if part.is_file() else sorted(part.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_bytes(), str(path))):
                if isinstance(node, ast.Import):
                    yield from ((path, node.lineno, alias.name.split(".")[0]) for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield path, node.lineno, node.module.split(".")[0]


def import_commands(app: App, artifact: Path, environment: dict[str, str]) -> None:
    """Import the worker and every command with the artifact alone on the path. Raises CannotBuild."""
    modules = command_modules(environment)
    if modules == ["commands"] and not (app.root / "commands").is_dir():
        modules = []
    program = _IMPORT.format(artifact=str(artifact), modules=modules)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False, cwd=artifact
    )
    if done.returncode:
        lines = [line for line in done.stderr.strip().splitlines() if line]
        where = [line.strip() for line in lines if str(artifact) in line]
        place = where[-1].replace(f"{artifact}/", "") if where else ""
        raise CannotBuild(
            f"The commands cannot be imported inside the artifact: {lines[-1] if lines else 'no reason'}\n  {place}\n"
            "What they import must be named in requirements.txt."
        )
