"""House style: stable, and nothing but space changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.definitions.language.formatter import MAX_WIDTH, format_source
from millrace.definitions.language.parser import Parsed, decode, parse
from millrace.definitions.language.source import Diagnostics
from tests.definitions.writing import fuzz


def parsed(text: str) -> Parsed:
    report = Diagnostics()
    result = parse(decode("test.millrace", text.encode(), report), report)
    assert not report.findings, "\n".join(map(str, report.findings))
    return result


def formatted(text: str) -> str:
    return format_source(parsed(text))


def tokens(text: str) -> list[str]:
    return [str(token) for token in parsed(text).tokens]


def test_statements_get_lines_of_their_own_and_comments_stay() -> None:
    text = """// top
app   A{queue Q{// why
message_type{a:json   b ? :list<  map<string,int>>  c:{x:int}}
   ordering :per_key( a.b [0 ] )  // trailing


   // before
   filter:a.x==1&&!( a.y in["p",  "q"])?-1<- 2:{"k":[ 1 ]}=={}
   map_to:command X . Y{ t:a  ?  // inside
     1 : 2
   }
   // last
}}
// end"""
    assert (
        formatted(text)
        == """// top
app A {
  queue Q { // why
    message_type { a: json  b?: list<map<string, int>>  c: { x: int } }
    ordering: per_key(a.b[0]) // trailing

    // before
    filter: a.x == 1 && !(a.y in ["p", "q"]) ? -1 < -2 : {"k": [1]} == {}
    map_to: command X.Y {
      // inside
      t: a ? 1 : 2
    }
    // last
  }
}
// end
"""
    )


def test_a_block_on_one_line_stays_there_while_it_fits() -> None:
    short = "app A {\n  queue Q { shards: 1  retention { max_depth: 5 } }\n}\n"
    assert formatted(short) == short
    long = "app A {\n  queue Q { " + "  ".join(f"label_{index}: {index}" for index in range(20)) + " }\n}\n"
    assert all(len(line) <= MAX_WIDTH for line in formatted(long).splitlines())
    assert len(formatted(long).splitlines()) == 24


def test_a_comment_alone_in_a_block_stays_in_it() -> None:
    text = "app A {\n  queue Q {\n    // nothing yet\n  }\n}\n"
    assert formatted(text) == text


@pytest.mark.parametrize("path", sorted(Path("infra/example/queues").glob("*.millrace")), ids=lambda path: path.name)
def test_the_shipped_definitions_are_in_house_style(path: Path) -> None:
    assert formatted(path.read_text()) == path.read_text()


# Programs: words of the language in a valid order, with any space and comments between them.
gaps = st.sampled_from([" ", "  ", "\n", "\n\n\n", " // c\n", "\n// own line\n", "\t", "\n  //x\n\n"])
names = st.sampled_from(["a", "b", "payload", "map_to", "message_type", "x1"])
atoms = st.sampled_from(["1", "-2", "1.5", '"s"', "'t'", "true", "null", 'b"x"', 'r"\\d"'])
operators = st.sampled_from(["==", "!=", "<", ">", "<=", "+", "-", "*", "&&", "||", "in", "%"])


def _words(*parts: str | st.SearchStrategy[str] | st.SearchStrategy[list[str]]) -> st.SearchStrategy[list[str]]:
    """The words of several strategies, one after the other."""
    lists = [st.just(part) if isinstance(part, str) else part for part in parts]
    return st.tuples(*lists).map(lambda pieces: [word for piece in pieces for word in _listed(piece)])


def _listed(piece: str | list[str]) -> list[str]:
    return [piece] if isinstance(piece, str) else piece


def _many(inner: st.SearchStrategy[list[str]], most: int = 3) -> st.SearchStrategy[list[str]]:
    return st.lists(inner, max_size=most).map(lambda found: [word for words in found for word in words])


expressions = st.recursive(
    _words(names) | _words(atoms),
    lambda inner: (
        _words(inner, operators, inner)
        | _words("(", inner, ")")
        | _words("!", inner)
        | _words("-", names)
        | _words("(", inner, ")", "?", inner, ":", inner)
        | _words(names, ".", names)
        | _words(names, "[", inner, "]")
        | _words(names, "(", inner, ",", inner, ")")
        | _words(names, ".", names, "(", ")")
        | _words("[", inner, ",", inner, "]")
        | _words("{", atoms, ":", inner, "}")
    ),
    max_leaves=5,
)
types = st.recursive(
    _words(st.sampled_from(["json", "string", "time"])) | _words("enum", "(", '"a"', ",", '"b"', ")"),
    lambda inner: _words("list", "<", inner, ">") | _words("map", "<", "string", ",", inner, ">")
    | _words("{", names, ":", inner, names, "?", ":", inner, "}"),
    max_leaves=3,
)  # fmt: skip
properties = _words(st.sampled_from(["a", "b", "x1"]), ":", expressions)
mappings = _words("map_to", ":", st.sampled_from(["command", "http"]), st.sampled_from(["A", '"u"']),
                  "{", _many(_words(names, ":", expressions)), "}")  # fmt: skip
type_blocks = _words("message_type", "{", _many(_words(names, ":", types)), "}")
blocks = st.recursive(
    properties | mappings | type_blocks,
    lambda inner: _words(
        st.sampled_from(["queue", "retention"]), st.sampled_from(["Q", '"l"']), "{", _many(inner), "}"
    ),
    max_leaves=5,
)


@fuzz(150)
@given(_words("app", "A", "{", _many(blocks), "}"), st.lists(gaps, min_size=1, max_size=40))
def test_formatting_twice_changes_nothing_and_keeps_every_word(words: list[str], spaces: list[str]) -> None:
    text = "".join(word + spaces[index % len(spaces)] for index, word in enumerate(words))
    report = Diagnostics()
    before = parse(decode("test.millrace", text.encode(), report), report)
    if report.findings:
        return
    once = format_source(before)
    after = parsed(once)
    assert format_source(after) == once
    assert tokens(once) == [str(token) for token in before.tokens]
    assert sorted(str(token).removeprefix("//").strip() for token in after.comments) == sorted(
        str(token).removeprefix("//").strip() for token in before.comments
    )
    assert not any(line != line.rstrip() for line in once.splitlines())


def test_a_targets_options_stay_beside_its_address() -> None:
    text = 'app A { queue Q { map_to: http "https://a.example"( secret_env:"K"   secret: "ssm:/x" ){n: payload.n} } }'
    wanted = 'map_to: http "https://a.example" (secret_env: "K"  secret: "ssm:/x") { n: payload.n }'
    assert wanted in formatted(text)
