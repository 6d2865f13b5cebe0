"""Reading the members of a block: known names, once each, with values of the right kind and in range."""

from __future__ import annotations

from millrace.definitions.language import syntax
from millrace.definitions.language.parser import Parsed
from millrace.definitions.language.source import Code, Diagnostics, Span, did_you_mean
from millrace.definitions.language.syntax import Expr, Literal, Word
from millrace.definitions.language.vocabulary import LIMITS, REPEATABLE, VOCABULARY, home_of
from millrace.definitions.spelling import format_time, parse_time
from millrace.model.queue_spec import QUEUE_NAME


class BlockReader:
    """The members of one block. Every reader gives the default where the setting is absent or was reported."""

    def __init__(self, parsed: Parsed, report: Diagnostics, kind: str, members: tuple[syntax.Member, ...]) -> None:
        self.parsed = parsed
        self.report = report
        self.kind = kind
        self._properties: dict[str, list[syntax.Property]] = {}
        self.blocks: dict[str, list[syntax.Block]] = {}
        self.types: syntax.TypeBlock | None = None
        self.mappings: list[syntax.Mapping] = []
        for member in members:
            self._take(member)

    def error(self, span: Span, code: Code, message: str, hint: str = "") -> None:
        self.report.error(self.parsed.source, span, code, message, hint)

    def warning(self, span: Span, code: Code, message: str, hint: str = "") -> None:
        self.report.warning(self.parsed.source, span, code, message, hint)

    def _take(self, member: syntax.Member) -> None:
        word = member.kind if isinstance(member, syntax.Block) else member.name
        if not self._belongs(word, member) or self._repeats(word):
            return
        match member:
            case syntax.Property():
                self._properties.setdefault(word.text, []).append(member)
            case syntax.Block():
                self.blocks.setdefault(word.text, []).append(member)
            case syntax.TypeBlock():
                self.types = member
            case syntax.Mapping():
                self.mappings.append(member)

    def _belongs(self, word: Word, member: syntax.Member) -> bool:
        words = VOCABULARY[self.kind]
        is_property = isinstance(member, syntax.Property)
        if word.text in (words.properties if is_property else words.blocks):
            return True
        if word.text in (words.blocks if is_property else words.properties):
            right = f"{word.text} {{ … }}" if is_property else f"{word.text}: value"
            self.error(word.span, Code.MISPLACED, f"`{word.text}` is written differently here", f"write `{right}`")
            return False
        where = "at the top of a file" if self.kind == "file" else f"in `{self.kind}`"
        home = home_of(word.text)
        if home is not None:
            hint = f"it belongs into `{home} {{ … }}`" if home != "file" else "it belongs to the top of the file"
            self.error(word.span, Code.MISPLACED, f"`{word.text}` does not stand {where}", hint)
            return False
        hint = did_you_mean(word.text, words.properties + words.blocks)
        self.error(word.span, Code.UNKNOWN, f"there is no `{word.text}` {where}", hint)
        return False

    def _repeats(self, word: Word) -> bool:
        taken = self.types is not None if word.text == "message_type" else False
        taken = taken or word.text in self._properties or word.text in self.blocks
        if not taken or word.text in REPEATABLE:
            return False
        self.error(word.span, Code.DUPLICATE, f"`{word.text}` stands here twice", "remove one of them")
        return True

    def block(self, kind: str) -> BlockReader:
        """The settings of an inner block that stands at most once; none where it is absent."""
        found = self.blocks.get(kind, [])
        if found and found[0].label is not None:
            self.error(found[0].label.span, Code.UNKNOWN, f"`{kind}` has no name", f"write `{kind} {{ … }}`")
        return BlockReader(self.parsed, self.report, kind, found[0].members if found else ())

    def has(self, name: str) -> bool:
        return name in self._properties

    def span_of(self, name: str) -> Span:
        return self._properties[name][0].span

    def values(self, name: str) -> list[Expr]:
        return [found.value for found in self._properties.get(name, ())]

    def expression(self, name: str) -> Expr | None:
        values = self.values(name)
        return values[0] if values else None

    def _wrong(self, span: Span, name: str, wanted: str, hint: str = "", code: Code = Code.TYPE) -> None:
        self.error(span, code, f"`{name}` must be {wanted}", hint)

    def whole(self, name: str, default: int) -> int:
        value = self.expression(name)
        if value is None or isinstance(value, syntax.Invalid):
            return default
        low, high = LIMITS[name]
        if not isinstance(value, Literal) or type(value.value) is not int:
            self._wrong(value.span, name, "a whole number", f"write a number from {low:g} to {high:.0f}")
            return default
        return value.value if self._in_range(name, value.value, value.span) else default

    def number(self, name: str, default: float) -> float:
        value = self.expression(name)
        if value is None or isinstance(value, syntax.Invalid):
            return default
        low, high = LIMITS[name]
        if not isinstance(value, Literal) or type(value.value) not in (int, float):
            self._wrong(value.span, name, "a number", f"write a number from {low:g} to {high:.0f}")
            return default
        number = float(value.value)  # type: ignore[arg-type]
        return number if self._in_range(name, number, value.span) else default

    def _in_range(self, name: str, value: float, span: Span) -> bool:
        low, high = LIMITS[name]
        if low <= value <= high:
            return True
        nearest = low if value < low else high
        hint = f"write a number from {low:g} to {high:.0f}; the nearest is {nearest:.10g}"
        self._wrong(span, name, f"between {low:g} and {high:.0f}", hint, Code.RANGE)
        return False

    def boolean(self, name: str, *, default: bool) -> bool:
        value = self.expression(name)
        if value is None or isinstance(value, syntax.Invalid):
            return default
        if not isinstance(value, Literal) or not isinstance(value.value, bool):
            self._wrong(value.span, name, "true or false", "write `true` or `false`")
            return default
        return value.value

    def choice(self, name: str, options: tuple[str, ...], default: str | None) -> str | None:
        value = self.expression(name)
        if value is None or isinstance(value, syntax.Invalid):
            return default
        written = value.text if isinstance(value, syntax.Name) else None
        if isinstance(value, Literal) and isinstance(value.value, str):
            written = value.value
        if written in options:
            return written
        hint = did_you_mean(written, options) if written is not None else f"write one of: {', '.join(options)}"
        self._wrong(value.span, name, f"one of {', '.join(options)}", hint, Code.UNKNOWN)
        return default

    def text(self, name: str, longest: int = 512) -> str | None:
        value = self.expression(name)
        return None if value is None else self.text_of(value, name, longest)

    def text_of(self, value: Expr, name: str, longest: int = 512) -> str | None:
        if isinstance(value, syntax.Invalid):
            return None
        if not isinstance(value, Literal) or not isinstance(value.value, str):
            self._wrong(value.span, name, "a string", 'write it in quotes: "…"')
            return None
        if not 0 < len(value.value) <= longest or not value.value.isprintable():
            self._wrong(value.span, name, f"1 to {longest} printable characters", code=Code.RANGE)
            return None
        return value.value

    def reference(self, name: str) -> Word | None:
        """A name of something else that is defined."""
        value = self.expression(name)
        if value is None or isinstance(value, syntax.Invalid):
            return None
        if isinstance(value, syntax.Name):
            return Word(value.text, value.span)
        hint = (
            f"write {value.value} without quotes" if isinstance(value, Literal) and isinstance(value.value, str) else ""
        )
        self._wrong(value.span, name, "the name of a queue", hint)
        return None

    def time(self, name: str) -> str | None:
        text = self.text(name)
        if text is None:
            return None
        try:
            return format_time(parse_time(text))
        except ValueError:
            hint = 'write it as "2026-11-16T09:30:00Z"'
            self._wrong(self.span_of(name), name, "an RFC 3339 time", hint)
            return None

    def label(self, block: syntax.Block) -> Word | None:
        """The name of a queue, webhook or app."""
        label = block.label
        if not isinstance(label, Word):
            hint = f"write `{block.kind.text} Name {{ … }}`"
            self.error(block.kind.span, Code.SYNTAX, f"this `{block.kind.text}` has no name", hint)
            return None
        if QUEUE_NAME.fullmatch(label.text) is None:
            message = "a name has at most 64 letters, digits and underscores and starts with a letter"
            self.error(label.span, Code.RANGE, message)
            return None
        return label
