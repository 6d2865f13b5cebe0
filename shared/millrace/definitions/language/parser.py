"""Text to syntax tree, with every syntax error of a file reported in one run.

After an error the statement it lies in is dropped and the rest is parsed again, so each error is found against text
that is otherwise as the author wrote it. A drop removes at least one token and their number is limited: parsing ends.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

from lark import Lark, Token
from lark.exceptions import UnexpectedCharacters, UnexpectedToken

from millrace.definitions.language.grammar import GRAMMAR, TOKEN_NAMES
from millrace.definitions.language.source import MAX_SOURCE_BYTES, Code, Diagnostics, Source, Span
from millrace.definitions.language.syntax import File
from millrace.definitions.language.tree import TreeBuilder

MAX_SYNTAX_ERRORS = 25

_NAMES = ("NAME", "MESSAGE_TYPE", "MAP_TO")
_OPENING, _CLOSING = ("LBRACE", "LPAR", "LSQB"), ("RBRACE", "RPAR", "RSQB")


@dataclass(frozen=True)
class Parsed:
    """A file's tree, with the tokens and comments that a formatter needs."""

    source: Source
    file: File
    tokens: list[Token]
    comments: list[Token]

    def tokens_of(self, span: Span) -> list[Token]:
        first = bisect_left(self.tokens, span.start, key=_start)
        return self.tokens[first : bisect_left(self.tokens, span.end, key=_start)]


def decode(path: str, data: bytes, report: Diagnostics) -> Source:
    """A file's bytes as text. What is not UTF-8, or too much of it, is reported and left out."""
    if len(data) > MAX_SOURCE_BYTES:
        source = Source(path, "")
        message = f"the file has {len(data)} bytes, at most {MAX_SOURCE_BYTES} are read"
        report.error(source, Span(0, 0), Code.SYNTAX, message, "split it into several files")
        return source
    try:
        return Source(path, data.decode("utf-8-sig"))
    except UnicodeDecodeError as exc:
        readable = Source(path, data.decode("utf-8", "replace"))
        start = len(data[: exc.start].decode("utf-8", "replace"))
        message = f"byte 0x{data[exc.start]:02x} is not UTF-8"
        report.error(readable, Span(start, start + 1), Code.SYNTAX, message, "save the file as UTF-8")
        return Source(path, "")


def parse(source: Source, report: Diagnostics) -> Parsed:
    """The tree of a source. Errors go to the report; what could not be read is missing from the tree."""
    lexed = _lex(source, report)
    comments = [token for token in lexed if token.type == "COMMENT"]
    tokens = [token for token in lexed if token.type not in ("COMMENT", "SPACE")]
    remaining = list(tokens)
    for _ in range(MAX_SYNTAX_ERRORS):
        try:
            return Parsed(source, _parse_tokens(source, remaining, report), tokens, comments)
        except UnexpectedToken as exc:
            remaining = _recover(source, remaining, exc, report)
    return Parsed(source, File(()), tokens, comments)


@lru_cache(maxsize=1)
def _language() -> Lark:
    return Lark(GRAMMAR, parser="lalr", lexer="basic", propagate_positions=True, maybe_placeholders=True)


def _start(token: Token) -> int:
    return token.start_pos or 0


def _end(token: Token) -> int:
    return token.end_pos or 0


def _lex(source: Source, report: Diagnostics) -> list[Token]:
    """Every token, comments and space included. A character that starts none is reported and stepped over."""
    text = source.text
    tokens: list[Token] = []
    for _ in range(MAX_SYNTAX_ERRORS):
        try:
            tokens = list(_language().lex(text, dont_ignore=True))
            break
        except UnexpectedCharacters as exc:
            place = exc.pos_in_stream or 0
            end = _report_character(source, place, report)
            meant = ":" if text[place] == "=" else " " * (end - place)
            text = text[:place] + meant + text[end:]
    return tokens


def _report_character(source: Source, place: int, report: Diagnostics) -> int:
    """Reports one character, and gives the end of what to step over: a whole line for a string without its end."""
    character = source.text[place]
    line_end = place + len(source.text[place:].splitlines()[0] or " ")
    if character in "\"'":
        message, hint = "the string has no end on its line", f"close it with {character}"
        report.error(source, Span(place, line_end), Code.SYNTAX, message, hint)
        return line_end
    hints = {
        "=": "`=` compares as `==`; a setting is written `name: value`",
        ";": "no separator is needed: remove it",
        "#": "a comment starts with `//`",
        "&": "write `&&`",
        "|": "write `||`",
    }
    shown = character if character.isprintable() else f"U+{ord(character):04X}"
    hint = hints.get(character, "remove it, or put it into a string")
    report.error(source, Span(place, place + 1), Code.SYNTAX, f"unexpected character `{shown}`", hint)
    return place + 1


def _parse_tokens(source: Source, tokens: list[Token], report: Diagnostics) -> File:
    parser = _language().parse_interactive("")
    for token in tokens:
        parser.feed_token(token)
    last = tokens[-1] if tokens else None
    tree = parser.feed_eof(last)  # type: ignore[no-untyped-call]
    return TreeBuilder(source, report).transform(tree)


def _recover(source: Source, tokens: list[Token], error: UnexpectedToken, report: Diagnostics) -> list[Token]:
    if error.token.type == "$END":
        return _close_open_blocks(source, tokens, error, report)
    at = bisect_left(tokens, _start(error.token), key=_start)
    _report_token(source, tokens, at, error, report)
    start = _statement_start(tokens, at)
    end = _statement_end(tokens, at)
    return tokens[:start] + tokens[max(end, start + 1) :]


def _close_open_blocks(source: Source, tokens: list[Token], error: UnexpectedToken, report: Diagnostics) -> list[Token]:
    """Reports the block that never ends; its unfinished last statement is dropped and the block closed."""
    opened: list[Token] = []
    for token in tokens:
        if token.type == "LBRACE":
            opened.append(token)
        elif token.type == "RBRACE" and opened:
            opened.pop()
    if not opened:
        end = len(source.text)
        report.error(source, Span(end, end), Code.SYNTAX, f"the file ends too early: {_expected(error)}")
        return tokens[: _statement_start(tokens, len(tokens) - 1)]
    unclosed = opened[-1]
    message = "this block is not closed"
    report.error(source, Span(_start(unclosed), _end(unclosed)), Code.SYNTAX, message, "add `}` where it ends")
    complete = "RBRACE" in error.accepts if error.accepts else "RBRACE" in error.expected
    kept = tokens if complete else tokens[: _statement_start(tokens, len(tokens) - 1)]
    still_open = sum((token.type == "LBRACE") - (token.type == "RBRACE") for token in kept)
    end = len(source.text)
    brace = Token("RBRACE", "}", start_pos=end, end_pos=end)
    return kept + [brace] * max(0, still_open)


def _starts_statement(tokens: list[Token], at: int) -> bool:
    """Whether `name:`, `name {` or `name label {` begins here, not inside an expression."""
    if tokens[at].type not in _NAMES:
        return False
    if at and tokens[at - 1].type not in (*_NAMES, "LBRACE", "RBRACE", *_VALUE_ENDS):
        return False
    after = [token.type for token in tokens[at + 1 : at + 3]] + ["", ""]
    labelled = after[0] in (*_NAMES, "STRING") and after[1] == "LBRACE"
    return after[0] in ("COLON", "LBRACE") or labelled or (after[0] == "OPTIONAL" and after[1] == "COLON")


_VALUE_ENDS = ("STRING", "BYTES", "INT", "FLOAT", "TRUE", "FALSE", "NULL", "RPAR", "RSQB", "MORETHAN")


def _statement_start(tokens: list[Token], at: int) -> int:
    """The first token of the statement around a token: the nearest start before it in the same block."""
    for index in range(at - 1, -1, -1):
        if tokens[index].type in ("LBRACE", "RBRACE"):
            return min(index + 1, at)
        if _starts_statement(tokens, index):
            return index
        first_on_line = index == 0 or "\n" in _gap(tokens, index)
        if first_on_line and tokens[index].type in _NAMES and not _inside_expression(tokens, index):
            return index
    return 0


def _gap(tokens: list[Token], index: int) -> str:
    return "\n" * ((tokens[index].line or 0) - (tokens[index - 1].end_line or 0))


def _inside_expression(tokens: list[Token], index: int) -> bool:
    return index > 0 and tokens[index - 1].type not in (*_NAMES, "LBRACE", "RBRACE", *_VALUE_ENDS)


def _statement_end(tokens: list[Token], at: int) -> int:
    """Past the last token of the statement: before the next statement, or before the brace that ends its block."""
    depth = 0
    for index in range(at, len(tokens)):
        kind = tokens[index].type
        if kind == "RBRACE" and depth == 0:
            return index
        if index > at and depth == 0 and _starts_statement(tokens, index):
            return index
        depth += (kind == "LBRACE") - (kind == "RBRACE")
        if kind == "RBRACE" and depth == 0:
            return index + 1
    return len(tokens)


def _report_token(source: Source, tokens: list[Token], at: int, error: UnexpectedToken, report: Diagnostics) -> None:
    token = tokens[at]
    message = f"unexpected `{str(token)[:40]}`: {_expected(error)}"
    hint = _word_hint(tokens[max(0, at - 2) : at + 1]) or _token_hint(token, tokens[at - 1] if at else None, error)
    report.error(source, Span(_start(token), _end(token)), Code.SYNTAX, message, hint)


def _expected(error: UnexpectedToken) -> str:
    expected = error.accepts or error.expected
    names = sorted({TOKEN_NAMES[name] for name in expected if name in TOKEN_NAMES})
    if {"INT", "STRING", "NAME"} <= set(expected):
        return "a value was expected"
    if not names:
        return "an operator was expected"
    return f"expected {', '.join(names[:-1])} or {names[-1]}" if len(names) > 1 else f"expected {names[0]}"


def _word_hint(nearby: list[Token]) -> str:
    """Python's words for CEL's operators, which read as names and fail a token or two later."""
    words = {"and": "&&", "or": "||", "not": "!"}
    for token in nearby:
        if str(token) in words:
            return f"for `{token}` write `{words[str(token)]}`"
    return ""


def _token_hint(token: Token, before: Token | None, error: UnexpectedToken) -> str:
    if token.type == "COMMA" and "COMMA" not in error.expected:
        return "no separator is needed between settings: remove the comma"
    if token.type == "RBRACE" and before is None:
        return "there is no block to close: remove it"
    if before is not None and before.type in _NAMES and "COLON" in error.expected and "LBRACE" in error.expected:
        return f"write `{before}: value` for a setting or `{before} {{ … }}` for a block"
    if before is not None and before.type == "COLON":
        return "write the value after the colon"
    return ""
