"""From lark's parse tree to the syntax tree, without recursion, with a limit on depth."""

from __future__ import annotations

from typing import Any

from lark import Token, Transformer_NonRecursive, v_args
from lark.tree import Meta

from millrace.definitions.language import syntax
from millrace.definitions.language.literals import read_bytes, read_int, read_string
from millrace.definitions.language.source import Code, Diagnostics, Source, Span
from millrace.definitions.language.syntax import MAX_EXPRESSION_DEPTH, MAX_TYPE_DEPTH, Expr, Literal, Word
from millrace.definitions.spelling import INT_MAX, INT_MIN


def _span(meta: Meta | Token) -> Span:
    start: int = meta.start_pos or 0
    end: int = meta.end_pos or start
    return Span(start, end)


def _too_deep(span: Span) -> syntax.Invalid:
    """Stands for what was cut off; deep itself, so that what lies around it is not reported again."""
    return syntax.Invalid(span, MAX_EXPRESSION_DEPTH + 1)


def _json(span: Span) -> syntax.TypeExpr:
    """Stands for a type that was cut off because it is too deep."""
    return syntax.TypeExpr(Word("json", span), span, MAX_TYPE_DEPTH + 1)


def _word(token: Token) -> Word:
    return Word(str(token), _span(token))


@v_args(meta=True)
class TreeBuilder(Transformer_NonRecursive[Token, syntax.File]):
    """One method for each rule of the grammar, named as the rule is."""

    def __init__(self, source: Source, report: Diagnostics) -> None:
        super().__init__()
        self._source = source
        self._report = report

    def _refuse(self, span: Span, message: str, hint: str = "") -> syntax.Invalid:
        self._report.error(self._source, span, Code.SYNTAX, message, hint)
        return syntax.Invalid(span)

    def _depth(self, span: Span, *operands: Expr) -> int | None:
        """The depth of a node over these operands; None, reported once, where it is too deep."""
        depth = 1 + max((operand.depth for operand in operands), default=0)
        if depth <= MAX_EXPRESSION_DEPTH:
            return depth
        if depth == MAX_EXPRESSION_DEPTH + 1:
            hint = "split it: let a record type or several fields carry the parts"
            self._refuse(span, f"the expression is nested deeper than {MAX_EXPRESSION_DEPTH}", hint)
        return None

    def start(self, _meta: Meta, blocks: list[syntax.Block]) -> syntax.File:
        return syntax.File(tuple(blocks))

    def block(self, meta: Meta, parts: list[Any]) -> syntax.Block:
        kind, label, *members = parts
        return syntax.Block(_word(kind), label, tuple(members), _span(meta))

    def word_label(self, _meta: Meta, parts: list[Word]) -> Word:
        return parts[0]

    def text_label(self, meta: Meta, parts: list[Token]) -> Expr:
        return self.string(meta, parts)

    def text_destination(self, meta: Meta, parts: list[Token]) -> Expr:
        return self.string(meta, parts)

    def dotted(self, meta: Meta, parts: list[Word]) -> Word:
        return Word(".".join(part.text for part in parts), _span(meta))

    def type_block(self, meta: Meta, parts: list[Any]) -> syntax.TypeBlock:
        return syntax.TypeBlock(_word(parts[0]), tuple(parts[1:]), _span(meta))

    def mapping(self, meta: Meta, parts: list[Any]) -> syntax.Mapping:
        keyword, kind, destination, options, *fields = parts
        braced = self._source.text[_span(meta).end - 1] == "}"
        present = tuple(field for field in fields if field is not None)
        return syntax.Mapping(
            _word(keyword), kind, destination, present if braced else None, _span(meta), options or ()
        )

    def options(self, _meta: Meta, parts: list[syntax.Property]) -> tuple[syntax.Property, ...]:
        return tuple(part for part in parts if part is not None)

    def property(self, meta: Meta, parts: list[Any]) -> syntax.Property:
        name = parts[0] if isinstance(parts[0], Word) else _word(parts[0])
        return syntax.Property(name, parts[1], _span(meta))

    def any_name(self, _meta: Meta, parts: list[Token]) -> Word:
        return _word(parts[0])

    def type_field(self, meta: Meta, parts: list[Any]) -> syntax.TypeField:
        name, optional, kind = parts
        return syntax.TypeField(name, optional is not None, kind, _span(meta))

    def plain_type(self, meta: Meta, parts: list[Token]) -> syntax.TypeExpr:
        return syntax.TypeExpr(_word(parts[0]), _span(meta))

    def generic_type(self, meta: Meta, parts: list[Any]) -> syntax.TypeExpr:
        name, *arguments = parts
        depth = self._type_depth(_span(meta), arguments)
        if depth is None:
            return _json(_span(meta))
        return syntax.TypeExpr(_word(name), _span(meta), depth, tuple(arguments))

    def enum_type(self, meta: Meta, parts: list[Token]) -> syntax.TypeExpr:
        values = [self.string(_meta_of(token), [token]) for token in parts[1:]]
        texts = tuple(value for value in values if isinstance(value, Literal))
        return syntax.TypeExpr(_word(parts[0]), _span(meta), values=texts)

    def record_type(self, meta: Meta, fields: list[syntax.TypeField]) -> syntax.TypeExpr:
        span = _span(meta)
        depth = self._type_depth(span, [field.type for field in fields])
        return _json(span) if depth is None else syntax.TypeExpr(Word("", span), span, depth, fields=tuple(fields))

    def _type_depth(self, span: Span, nested: list[syntax.TypeExpr]) -> int | None:
        depth = 1 + max((kind.depth for kind in nested), default=0)
        if depth <= MAX_TYPE_DEPTH:
            return depth
        if depth == MAX_TYPE_DEPTH + 1:
            hint = "let `json` carry what lies below"
            self._refuse(span, f"the type is nested deeper than {MAX_TYPE_DEPTH}", hint)
        return None

    def name(self, _meta: Meta, parts: list[Word]) -> Expr:
        return syntax.Name(parts[0].text, parts[0].span)

    def ternary(self, meta: Meta, parts: list[Expr]) -> Expr:
        depth = self._depth(_span(meta), *parts)
        return syntax.Ternary(parts[0], parts[1], parts[2], _span(meta), depth) if depth else _too_deep(_span(meta))

    def either(self, meta: Meta, parts: list[Expr]) -> Expr:
        return self._logical("||", meta, parts)

    def both(self, meta: Meta, parts: list[Expr]) -> Expr:
        return self._logical("&&", meta, parts)

    def _logical(self, operator: str, meta: Meta, parts: list[Expr]) -> Expr:
        depth = self._depth(_span(meta), *parts)
        return syntax.Logical(operator, tuple(parts), _span(meta), depth) if depth else _too_deep(_span(meta))

    def binary(self, meta: Meta, parts: list[Any]) -> Expr:
        left, operator, right = parts
        depth = self._depth(_span(meta), left, right)
        if depth is None:
            return _too_deep(_span(meta))
        return syntax.Binary(str(operator), left, right, _span(meta), depth)

    def less(self, meta: Meta, parts: list[Expr]) -> Expr:
        return self.binary(meta, [parts[0], "<", parts[1]])

    def greater(self, meta: Meta, parts: list[Expr]) -> Expr:
        return self.binary(meta, [parts[0], ">", parts[1]])

    def unary(self, meta: Meta, parts: list[Any]) -> Expr:
        operator, operand = str(parts[0]), parts[1]
        span = _span(meta)
        if operator == "-" and isinstance(operand, Literal) and type(operand.value) in (int, float):
            return self._negative(span, operand.value)
        depth = self._depth(span, operand)
        return syntax.Unary(operator, operand, span, depth) if depth else _too_deep(span)

    def _negative(self, span: Span, value: Any) -> Expr:
        if isinstance(value, int) and -value < INT_MIN:
            return self._refuse(span, f"an int is at least {INT_MIN}")
        return Literal(-value, span)

    def select(self, meta: Meta, parts: list[Any]) -> Expr:
        depth = self._depth(_span(meta), parts[0])
        return syntax.Select(parts[0], parts[1], _span(meta), depth) if depth else _too_deep(_span(meta))

    def index(self, meta: Meta, parts: list[Expr]) -> Expr:
        depth = self._depth(_span(meta), *parts)
        return syntax.Index(parts[0], parts[1], _span(meta), depth) if depth else _too_deep(_span(meta))

    def arguments(self, _meta: Meta, parts: list[Expr]) -> tuple[Expr, ...]:
        return tuple(parts)

    def method(self, meta: Meta, parts: list[Any]) -> Expr:
        receiver, function, arguments = parts
        return self._call(meta, receiver, function, arguments or ())

    def call(self, meta: Meta, parts: list[Any]) -> Expr:
        function, arguments = parts
        return self._call(meta, None, function, arguments or ())

    def _call(self, meta: Meta, receiver: Expr | None, function: Word, arguments: tuple[Expr, ...]) -> Expr:
        operands = arguments if receiver is None else (receiver, *arguments)
        depth = self._depth(_span(meta), *operands)
        if depth is None:
            return _too_deep(_span(meta))
        return syntax.CallExpr(receiver, function, arguments, _span(meta), depth)

    def list_expr(self, meta: Meta, parts: list[Any]) -> Expr:
        items = parts[0] or ()
        depth = self._depth(_span(meta), *items)
        return syntax.ListExpr(items, _span(meta), depth) if depth else _too_deep(_span(meta))

    def entry(self, _meta: Meta, parts: list[Expr]) -> tuple[Expr, Expr]:
        return parts[0], parts[1]

    def map_expr(self, meta: Meta, parts: list[Any]) -> Expr:
        entries = tuple(entry for entry in parts if entry is not None)
        depth = self._depth(_span(meta), *(side for entry in entries for side in entry))
        return syntax.MapExpr(entries, _span(meta), depth) if depth else _too_deep(_span(meta))

    def string(self, meta: Meta, parts: list[Token]) -> Expr:
        try:
            return Literal(read_string(parts[0]), _span(meta))
        except ValueError as exc:
            return self._refuse(_span(meta), str(exc))

    def bytes(self, meta: Meta, parts: list[Token]) -> Expr:
        try:
            return Literal(read_bytes(parts[0]), _span(meta))
        except ValueError as exc:
            return self._refuse(_span(meta), str(exc))

    def int(self, meta: Meta, parts: list[Token]) -> Expr:
        try:
            value = read_int(parts[0])
        except ValueError as exc:
            return self._refuse(_span(meta), str(exc))
        negated = self._source.text[: _span(meta).start].rstrip(" \t\r\n").endswith("-")
        if value > INT_MAX and not negated:
            return self._refuse(_span(meta), f"an int is at most {INT_MAX}")
        return Literal(value, _span(meta))

    def float(self, meta: Meta, parts: list[Token]) -> Expr:
        value = float(parts[0])
        if value == float("inf"):
            return self._refuse(_span(meta), "the number is too large for a float")
        return Literal(value, _span(meta))

    def true(self, meta: Meta, _parts: list[Token]) -> Expr:
        return Literal(True, _span(meta))  # noqa: FBT003

    def false(self, meta: Meta, _parts: list[Token]) -> Expr:
        return Literal(False, _span(meta))  # noqa: FBT003

    def null(self, meta: Meta, _parts: list[Token]) -> Expr:
        return Literal(None, _span(meta))


def _meta_of(token: Token) -> Meta:
    meta = Meta()  # type: ignore[no-untyped-call]
    meta.start_pos, meta.end_pos, meta.empty = token.start_pos or 0, token.end_pos or 0, False
    return meta
