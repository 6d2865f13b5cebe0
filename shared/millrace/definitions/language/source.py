"""Source text, places in it, and what is wrong there."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from millrace.definitions.loading import nearest_name

#: Larger than any definition a person writes; bounds what the compiler spends on a hostile file.
MAX_SOURCE_BYTES = 512 * 1024
#: After so many errors the rest is noise.
MAX_ERRORS = 50
#: A caret line shows this much of a long line.
MAX_EXCERPT = 160


class Span(NamedTuple):
    """A half-open range of characters."""

    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """One file's text."""

    path: str
    text: str

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(index + 1 for index, character in enumerate(self.text) if character == "\n")]

    def place(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        starts = self._line_starts
        end = starts[number] - 1 if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r")


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Code(StrEnum):
    """Kinds of findings; a file that does not parse is spared those that its missing parts would cause."""

    SYNTAX = "syntax"
    UNKNOWN = "unknown"
    MISPLACED = "misplaced"
    MISSING = "missing"
    DUPLICATE = "duplicate"
    REFERENCE = "reference"
    TYPE = "type"
    RANGE = "range"
    CYCLE = "cycle"
    UNUSED = "unused"
    UNSIGNED = "unsigned"


#: Findings that a dropped statement may have caused.
DOUBTFUL_AFTER_SYNTAX_ERROR = {Code.MISPLACED, Code.MISSING, Code.REFERENCE, Code.UNUSED}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: where, what, and what to write instead."""

    source: Source
    span: Span
    code: Code
    message: str
    hint: str = ""
    severity: Severity = Severity.ERROR

    @property
    def place(self) -> tuple[str, int, int]:
        line, column = self.source.place(self.span.start)
        return self.source.path, line, column

    def __str__(self) -> str:
        path, line, column = self.place
        head = f"{path}:{line}:{column}: {self.severity}: {self.message}"
        excerpt, caret = self._excerpt(line, column)
        hint = f"\n  = {self.hint}" if self.hint else ""
        return f"{head}\n  | {excerpt}\n  | {caret}{hint}"

    def _excerpt(self, line: int, column: int) -> tuple[str, str]:
        text = self.source.line(line)
        skipped = max(0, column - MAX_EXCERPT // 2) if len(text) > MAX_EXCERPT else 0
        shown = "".join(
            character if character.isprintable() else " " for character in text[skipped : skipped + MAX_EXCERPT]
        )
        room = max(1, len(shown) - (column - 1 - skipped))
        width = max(1, min(self.span.end - self.span.start, room))
        return shown, " " * (column - 1 - skipped) + "^" * width


@dataclass
class Diagnostics:
    """Collects the findings of one compilation."""

    findings: list[Diagnostic] = field(default_factory=list)

    def error(self, source: Source, span: Span, code: Code, message: str, hint: str = "") -> None:
        self.findings.append(Diagnostic(source, span, code, message, hint))

    def warning(self, source: Source, span: Span, code: Code, message: str, hint: str = "") -> None:
        self.findings.append(Diagnostic(source, span, code, message, hint, Severity.WARNING))

    @property
    def sorted(self) -> list[Diagnostic]:
        """Findings by place, without those that only a syntax error of the same file brought about."""
        broken = {found.source.path for found in self.findings if found.code is Code.SYNTAX}
        kept = [
            found
            for found in self.findings
            if found.source.path not in broken or found.code not in DOUBTFUL_AFTER_SYNTAX_ERROR
        ]
        if broken:
            kept = [found for found in kept if found.code not in (Code.REFERENCE, Code.UNUSED)]
        return sorted(dict.fromkeys(kept), key=lambda found: found.place)[:MAX_ERRORS]


def did_you_mean(name: str, known: tuple[str, ...], otherwise: str = "") -> str:
    """A hint with the nearest right name, or all of them where none is near."""
    near = nearest_name(name, known)
    if near is not None:
        return f"did you mean `{near}`?"
    return otherwise or f"write one of: {', '.join(known)}"
