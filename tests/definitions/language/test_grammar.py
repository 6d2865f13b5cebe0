"""The grammar takes what the language has, and every token has a name for people."""

from __future__ import annotations

import pytest
from lark import Lark
from lark.exceptions import UnexpectedInput

from millrace.definitions.language.grammar import GRAMMAR, TOKEN_NAMES

LANGUAGE = Lark(GRAMMAR, parser="lalr", lexer="basic", maybe_placeholders=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "app A { }",
        'app A { queue "q" { message_type { id: string  at?: time  l: list<map<string, int>>  e: enum("a", "b") } } }',
        "app A { x: a.b[0] + f(1, -2) * 3 > 4 && !c || d in [1, {'k': null}] ? 0x1F : 1.5e3 y: b'bytes' }",
        "app A { map_to: command E.C { id: message_type.map_to }  map_to: http 'https://x' }  // a comment",
    ],
)
def test_what_the_language_has_is_parsed(text: str) -> None:
    assert LANGUAGE.parse(text).data == "start"


@pytest.mark.parametrize("text", ["app", "app A {", "app A { x }", "app A { x: }", "app A { x: 1 + }", "x: 1"])
def test_what_it_has_not_is_refused(text: str) -> None:
    with pytest.raises(UnexpectedInput):
        LANGUAGE.parse(text)


def test_every_token_name_is_a_token() -> None:
    assert set(TOKEN_NAMES) - {"$END"} <= {terminal.name for terminal in LANGUAGE.terminals}
