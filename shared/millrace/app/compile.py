"""Compiling an app: its definitions, held to the commands that its modules register."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from millrace.app.layout import SUFFIX, App
from millrace.app.registered import registered_commands
from millrace.definitions.language.compiler import Compilation, compile_files


class NotCompiled(Exception):
    """The definitions have errors; its text names each with its place."""


def definition_files(app: App) -> Iterator[tuple[str, bytes]]:
    """Every definition of the app, named from its root, in the order of their names."""
    for path in sorted(app.queues.rglob(f"*{SUFFIX}")):
        yield path.relative_to(app.root).as_posix(), path.read_bytes()


def compile_app(app: App, environment: Mapping[str, str]) -> Compilation:
    """Compile the app's definitions; a command that nobody registers is an error. Raises CommandsBroken."""
    return compile_files(definition_files(app), registered_commands(app, environment))


def write_definitions(app: App, environment: Mapping[str, str]) -> Path:
    """Compile the app and write what the functions load. Raises NotCompiled or CommandsBroken, and writes nothing."""
    compilation = compile_app(app, environment)
    if compilation.definitions is None:
        raise NotCompiled("\n".join(map(str, compilation.errors)))
    app.generated.mkdir(exist_ok=True)
    draft = app.definitions.with_suffix(f".{os.getpid()}")
    draft.write_text(compilation.text, encoding="utf-8", newline="\n")
    return draft.replace(app.definitions)
