"""The house style: two spaces, one statement a line, comments where they were.

A block that the author wrote on one line stays there while it fits. Formatting is stable: what it writes, it leaves
alone. The tokens stay the same; only space between them changes, and a comment in the middle of a statement moves
in front of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from lark import Token

from millrace.definitions.language import syntax
from millrace.definitions.language.expression_text import expression_text
from millrace.definitions.language.parser import Parsed
from millrace.definitions.language.source import Span
from millrace.definitions.language.syntax import TypeExpr, Word

MAX_WIDTH = 110
INDENT = "  "


@dataclass(frozen=True, slots=True)
class _Item:
    """A statement: its text before any brace, and what the braces hold."""

    span: Span
    head: str
    items: tuple[_Item, ...] | None = None
    opened: int = 0  #: offset of the opening brace

    @property
    def flat(self) -> str:
        """The statement on one line, as blocks are written there: two spaces between settings."""
        if self.items is None:
            return self.head
        inner = "  ".join(item.flat for item in self.items)
        return f"{self.head}{' ' if self.head else ''}{{ {inner} }}" if inner else f"{self.head} {{}}"


def format_source(parsed: Parsed) -> str:
    """The text of a file in house style. The file must have parsed without a syntax error."""
    printer = _Printer(parsed)
    printer.print(tuple(_block(block, parsed) for block in parsed.file.blocks), len(parsed.source.text), "")
    return "".join(f"{line}\n" for line in printer.lines)


class _Printer:
    def __init__(self, parsed: Parsed) -> None:
        self.lines: list[str] = []
        self._source = parsed.source
        self._comments = list(parsed.comments)
        self._last_line = 0  #: of the source, that was printed; a gap after it stays one blank line

    def print(self, items: tuple[_Item, ...], end: int, indent: str) -> None:
        """Prints statements, and the comments among and after them up to an offset."""
        for item in items:
            self._print_comments(item.span.start, indent)
            self._keep_gap(item.span.start)
            hoisted_to = item.span.end if item.items is None or self._fits(item, indent) else item.opened
            for comment in self._take(hoisted_to):
                self.lines.append(f"{indent}{_comment(comment)}")
            self._print_item(item, indent)
        self._print_comments(end, indent)

    def _print_item(self, item: _Item, indent: str) -> None:
        if item.items is None or self._fits(item, indent):
            self._end_line(f"{indent}{item.flat}", item.span.end)
            return
        self._end_line(f"{indent}{item.head} {{".replace("  {", " {"), item.opened + 1, fresh=True)
        self.print(item.items, item.span.end - 1, indent + INDENT)
        self._end_line(f"{indent}}}", item.span.end)

    def _fits(self, item: _Item, indent: str) -> bool:
        """Whether a block stays on the one line on which it was written. A block of nothing has only that line."""
        inside = any(item.opened < (comment.start_pos or 0) < item.span.end for comment in self._comments)
        one_line = self._line(item.opened) == self._line(item.span.end - 1) or not item.items
        return one_line and not inside and len(indent) + len(item.flat) <= MAX_WIDTH

    def _end_line(self, text: str, offset: int, *, fresh: bool = False) -> None:
        """Ends a line with the comment that followed it in the source, if one did."""
        self._last_line = self._line(max(0, offset - 1))
        following = self._comments[0] if self._comments else None
        if following is not None and self._trails(following, offset):
            text = f"{text} {_comment(self._comments.pop(0))}"
        self.lines.append(text)
        if fresh:
            self._last_line = -1

    def _trails(self, comment: Token, offset: int) -> bool:
        start = comment.start_pos or 0
        return start >= offset and not self._source.text[offset:start].strip(" \t")

    def _print_comments(self, end: int, indent: str) -> None:
        for comment in self._take(end):
            self._keep_gap(comment.start_pos or 0)
            self.lines.append(f"{indent}{_comment(comment)}")
            self._last_line = self._line(comment.start_pos or 0)

    def _take(self, end: int) -> list[Token]:
        taken = [comment for comment in self._comments if (comment.start_pos or 0) < end]
        del self._comments[: len(taken)]
        return taken

    def _keep_gap(self, offset: int) -> None:
        if self._last_line > 0 and self._line(offset) - self._last_line > 1:
            self.lines.append("")

    def _line(self, offset: int) -> int:
        return self._source.place(offset)[0]


def _comment(token: Token) -> str:
    text = str(token).removeprefix("//").rstrip()
    return f"// {text}" if text[:1] not in ("", " ", "/", "\t") else f"//{text}"


def _brace(parsed: Parsed, span: Span) -> int:
    """Where the block of a statement opens."""
    return next(token.start_pos or 0 for token in parsed.tokens_of(span) if token.type == "LBRACE")


def _raw(parsed: Parsed, span: Span) -> str:
    return parsed.source.text[span.start : span.end]


def _block(block: syntax.Block, parsed: Parsed) -> _Item:
    label = "" if block.label is None else f" {_raw(parsed, block.label.span)}"
    members = tuple(_member(member, parsed) for member in block.members)
    return _Item(block.span, f"{block.kind.text}{label}", members, _brace(parsed, block.span))


def _member(member: syntax.Member, parsed: Parsed) -> _Item:
    match member:
        case syntax.Block():
            return _block(member, parsed)
        case syntax.Property():
            return _property(member, parsed)
        case syntax.TypeBlock():
            fields = tuple(_type_field(field, parsed) for field in member.fields)
            return _Item(member.span, member.name.text, fields, _brace(parsed, member.span))
    return _mapping(member, parsed)


def _property(member: syntax.Property, parsed: Parsed) -> _Item:
    tokens = parsed.tokens_of(member.span)
    return _Item(member.span, f"{member.name.text}: {expression_text(tokens[2:])}")


def _mapping(member: syntax.Mapping, parsed: Parsed) -> _Item:
    written = member.destination
    destination = written.text if isinstance(written, Word) else _raw(parsed, written.span)
    options = "  ".join(_property(option, parsed).head for option in member.options)
    head = f"{member.name.text}: {member.kind.text} {destination}{f' ({options})' if options else ''}"
    if member.fields is None:
        return _Item(member.span, head)
    fields = tuple(_property(field, parsed) for field in member.fields)
    return _Item(member.span, head, fields, _brace(parsed, member.span))


def _type_field(field: syntax.TypeField, parsed: Parsed) -> _Item:
    head = f"{field.name.text}{'?' if field.optional else ''}:"
    if field.type.fields is None:
        return _Item(field.span, f"{head} {_type(field.type, parsed)}")
    fields = tuple(_type_field(inner, parsed) for inner in field.type.fields)
    return _Item(field.span, head, fields, field.type.span.start)


def _type(written: TypeExpr, parsed: Parsed) -> str:
    if written.fields is not None:
        inner = "  ".join(_type_field(field, parsed).flat for field in written.fields)
        return f"{{ {inner} }}" if inner else "{}"
    if written.values is not None:
        return f"{written.name.text}({', '.join(_raw(parsed, value.span) for value in written.values)})"
    if written.arguments:
        return f"{written.name.text}<{', '.join(_type(argument, parsed) for argument in written.arguments)}>"
    return written.name.text
