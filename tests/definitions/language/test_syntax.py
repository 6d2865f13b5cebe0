"""Every expression can be walked through its children."""

from __future__ import annotations

import pytest

from millrace.definitions.language.parser import decode, parse
from millrace.definitions.language.source import Diagnostics
from millrace.definitions.language.syntax import Expr, Name, Property, children


def expression(text: str) -> Expr:
    parsed = parse(decode("t", f"app A {{ x: {text} }}".encode(), Diagnostics()), Diagnostics())
    (member,) = parsed.file.blocks[0].members
    assert isinstance(member, Property)
    return member.value


def names(expr: Expr) -> list[str]:
    found = [expr.text] if isinstance(expr, Name) else []
    return found + [name for child in children(expr) for name in names(child)]


@pytest.mark.parametrize(
    "text",
    ["a.x + b[c]", "-a || !b && c", "a ? b : c", "[a, b, c]", "{a: b, 'k': c}", "a.f(b, c)", "f(a) < g(b, c)"],
)
def test_a_walk_meets_every_name_once(text: str) -> None:
    assert sorted(names(expression(text))) == sorted({"a", "b", "c"} & set(text))


def test_depth_counts_the_longest_way_down() -> None:
    assert [expression(text).depth for text in ("a", "a.b", "a.b.c", "f(a.b, c)")] == [1, 2, 3, 3]
