"""Commands on queue definitions: `compile`, `fmt`, `explain`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from millrace.app.layout import SUFFIX, App
from millrace.cli.app import this_app

if TYPE_CHECKING:
    from millrace.definitions.language.compiler import Compilation
    from millrace.definitions.language.source import Diagnostic

_sources = click.argument("sources", nargs=-1, type=click.Path(exists=True, path_type=Path))


def _files(sources: tuple[Path, ...]) -> Iterator[tuple[str, bytes]]:
    """Every definition file under the given paths, in the order of their names."""
    for source in sources:
        found = sorted(source.rglob(f"*{SUFFIX}")) if source.is_dir() else [source]
        if not found or not source.exists():
            raise click.ClickException(f"There is no {SUFFIX} file in {source}.")
        for path in found:
            yield path.as_posix(), path.read_bytes()


def _print(findings: list[Diagnostic]) -> None:
    for found in findings:
        click.echo(str(found), err=True)


@click.command("compile")
@_sources
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The app's .millrace/definitions.json."
)
@click.option("--check", is_flag=True, help="Write nothing; fail if the compiled file is not current.")
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
def compile_command(sources: tuple[Path, ...], output: Path | None, *, check: bool, strict: bool) -> None:
    """Compile definitions to the JSON that the functions load.

    SOURCES are files or folders. Without them: the app's queues, held to the commands that its modules register.
    """
    compilation, output = _compiled(sources, output)
    _print(compilation.findings)
    if compilation.definitions is None or (strict and compilation.warnings):
        raise click.ClickException(_count(len(compilation.errors), len(compilation.warnings)))
    queues, webhooks = len(compilation.definitions["queues"]), len(compilation.definitions["webhooks"])
    if check:
        current = output.read_bytes() if output.exists() else b""
        if current != compilation.text.encode():
            raise click.ClickException(f"{_shown(output)} is not current: run `millrace compile`.")
        click.echo(f"{_shown(output)} is current: {queues} queues, {webhooks} webhooks.")
        return
    output.parent.mkdir(exist_ok=True)
    output.write_text(compilation.text, encoding="utf-8", newline="\n")
    click.echo(f"{_shown(output)}: {queues} queues, {webhooks} webhooks.")


def _compiled(sources: tuple[Path, ...], output: Path | None) -> tuple[Compilation, Path]:
    from millrace.app.compile import compile_app
    from millrace.app.registered import CommandsBroken
    from millrace.definitions.language.compiler import compile_files

    if sources:
        if output is None:
            raise click.UsageError("Say where to write what these compile to: -o FILE.")
        return compile_files(_files(sources)), output
    app = this_app()
    try:
        return compile_app(app, os.environ), output or app.definitions
    except CommandsBroken as broken:
        raise click.ClickException(str(broken)) from broken


def _shown(path: Path) -> Path:
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _count(errors: int, warnings: int) -> str:
    counted = [
        f"{count} {word}{'' if count == 1 else 's'}" for count, word in ((errors, "error"), (warnings, "warning"))
    ]
    return f"{', '.join(counted)}; nothing written."


@click.command("fmt")
@_sources
@click.option("--check", is_flag=True, help="Write nothing; fail if a file is not in house style.")
def format_command(sources: tuple[Path, ...], *, check: bool) -> None:
    """Write definition files in house style. Formatting twice changes nothing."""
    from millrace.definitions.language.formatter import format_source
    from millrace.definitions.language.parser import decode, parse
    from millrace.definitions.language.source import Diagnostics

    changed, broken = [], False
    for name, data in _files(sources or (_shown(this_app().queues),)):
        report = Diagnostics()
        parsed = parse(decode(name, data, report), report)
        if report.findings:
            _print(report.sorted)
            broken = True
            continue
        text = format_source(parsed).encode()
        if text != data:
            changed.append(name)
            if not check:
                Path(name).write_bytes(text)
    for name in changed:
        click.echo(f"{'not in house style' if check else 'formatted'}: {name}")
    if broken or (check and changed):
        sys.exit(1)


def _text_of(app: App) -> bytes:
    from millrace.app.compile import definition_files
    from millrace.definitions.language.compiler import compile_files

    compilation = compile_files(definition_files(app))
    if compilation.definitions is None:
        _print(compilation.errors)
        raise click.ClickException(_count(len(compilation.errors), len(compilation.warnings)))
    return compilation.text.encode()


@click.command("explain")
@click.argument("queue")
@click.option(
    "-d",
    "--definitions",
    "compiled",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A compiled file; without it the app's definitions are compiled.",
)
def explain_command(queue: str, compiled: Path | None) -> None:
    """Print QUEUE's retry timetable and limits in words."""
    from rich.console import Console
    from rich.table import Table

    from millrace.definitions.explain import describe_wait, in_words, limits, next_runs, timetable
    from millrace.definitions.loading import load
    from millrace.model.clock import system_clock
    from millrace.model.errors import MillraceError

    try:
        definitions = load(compiled or _text_of(this_app()))
        definition = definitions.queue(queue)
    except MillraceError as exc:
        raise click.ClickException(str(exc)) from exc
    console = Console(highlight=False)
    promises = Table(title=f"{definition.name} ({definition.app})", show_header=False, title_justify="left")
    for name, sentence in limits(definition, definitions.webhooks_of(queue)):
        promises.add_row(name, sentence)
    for name, sentence in next_runs(definitions.schedules_of(queue), system_clock()):
        promises.add_row(name, sentence)
    console.print(promises, markup=False)
    delivery = definition.spec.delivery
    retries = Table(
        "attempt", "after waiting", "at the latest", title="A message that keeps failing", title_justify="left"
    )
    for attempt in timetable(delivery):
        retries.add_row(str(attempt.number), describe_wait(attempt, delivery.jitter), in_words(attempt.since_first_ms))
    retries.add_row("then", "", "dead letter")
    console.print(retries, markup=False)
