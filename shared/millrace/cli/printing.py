"""Tables for people, JSON for programs."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

PIPE_WIDTH = 240
COLOURS = {
    "active": "green",
    "ready": "green",
    "done": "green",
    "scheduled": "yellow",
    "in_flight": "cyan",
    "dead": "red",
    "paused": "yellow",
}


def print_json(document: Any) -> None:
    """A document as JSON; what a terminal would obey is escaped, so that the text stays the same for programs."""
    text = json.dumps(document, indent=2, ensure_ascii=False, default=str)
    click.echo("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


def table_of(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], title: str = "") -> Table:
    """Rows under their columns; text from messages is shown as it is, never as markup."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left")
    for column in columns:
        table.add_column(column.replace("_", " "), overflow="fold")
    for row in rows:
        cells = [_shown(row.get(column)) for column in columns]
        table.add_row(*[Text(cell, style=COLOURS.get(cell, "")) for cell in cells])
    return table


def print_table(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], title: str = "") -> None:
    from rich.console import Console

    # Into a pipe a table is as wide as it needs to be: a folded word cannot be searched for.
    console = Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)
    console.print(table_of(columns, rows, title))


def print_facts(facts: Mapping[str, Any]) -> None:
    """Named values, one a line."""
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        click.echo(f"{click.style(name.replace('_', ' ').ljust(width), bold=True)}  {_shown(value)}")


def print_exports(facts: Mapping[str, Any], *, err: bool) -> None:
    """Lines that a shell can evaluate; whatever a sender put into a field stays inside its quotes."""
    for name, value in facts.items():
        click.echo(f"export MILLRACE_{name}={shlex.quote(str(value))}", err=err)


def _shown(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, list | tuple):
        return plain(", ".join(map(str, value))) or "-"
    return plain(json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping) else str(value))


def plain(text: object) -> str:
    """Text of others without anything that a terminal would obey."""
    return "".join(character if character.isprintable() or character == "\n" else "?" for character in str(text))


def print_unset(names: Iterable[str]) -> None:
    """A line that a shell can evaluate: forget what an earlier message left, and fail."""
    click.echo(f"unset {' '.join(f'MILLRACE_{name}' for name in names)}; false")
