"""Expressions are put on one line with the spaces of the house style."""

from __future__ import annotations

import pytest

from millrace.definitions.language.expression_text import expression_text
from millrace.definitions.language.parser import decode, parse
from millrace.definitions.language.source import Diagnostics


def written(expression: str) -> str:
    """An expression as the formatter writes it, out of the definition that it stands in."""
    parsed = parse(decode("t", f"app A {{ x: {expression} }}".encode(), Diagnostics()), Diagnostics())
    return expression_text(parsed.tokens[5:-1])


@pytest.mark.parametrize(
    ("given", "house_style"),
    [
        ("a  . b\n  [ 0 ]", "a.b[0]"),
        ("a+b*-c", "a + b * -c"),
        ("- a", "-a"),
        ("a-1", "a - 1"),
        ("f ( a,b )", "f(a, b)"),
        ("! a&&( b||c )", "!a && (b || c)"),
        ("[ 1,2 ]", "[1, 2]"),
        ("{ 'a' :1,'b':x?y:z }", "{'a': 1, 'b': x ? y : z}"),
        ("a ?b :c", "a ? b : c"),
    ],
)
def test_spaces_stand_where_the_house_style_has_them(given: str, house_style: str) -> None:
    assert written(given) == house_style
    assert written(house_style) == house_style
