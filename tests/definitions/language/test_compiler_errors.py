"""What an author reads: place, caret, what to write instead; all of it in one run."""

from __future__ import annotations

import pytest

from tests.definitions.writing import MESSAGE, QUIET, compile_text, messages, only_message, queue_text


def test_an_error_shows_file_line_column_caret_and_what_to_write() -> None:
    text = f"app Test {{\n  queue Jobs {{\n    {MESSAGE} {QUIET}\n    max_concurency: 5\n  }}\n}}\n"
    (found,) = compile_text(text, "infra/jobs.millrace").findings
    assert str(found) == (
        "infra/jobs.millrace:4:5: error: there is no `max_concurency` in `queue`\n"
        "  |     max_concurency: 5\n"
        "  |     ^^^^^^^^^^^^^^\n"
        "  = did you mean `max_concurrency`?"
    )


def test_all_errors_of_a_file_come_in_one_run_in_their_order() -> None:
    text = f"""app Test {{
  queue Jobs {{
    {MESSAGE} {QUIET}
    shards: 0
    priority: hihg
    filter: payload.action = "opened"
    retention {{ max_age_seconds: soon  max_depth 10 }}
    delivery {{ max_attempts: 500, backoff: ful_jitter }}
    labels: ["a"
    lease_seconds: "30"
    map_to: comand A.B {{ id: paylod.id  name: headers.size() > 1 ? : 2 }}
  }}
}}
"""
    places = [found.place[1] for found in compile_text(text).findings]
    assert places == sorted(places)
    assert set(places) >= {4, 5, 6, 7, 8, 10, 11}


def test_errors_of_several_files_come_together() -> None:
    from millrace.definitions.language.compiler import compile_files

    one = queue_text("shards: 500", name="One").encode()
    two = queue_text("shards: 600", name="Two").encode()
    findings = compile_files([("one.millrace", one), ("two.millrace", two)]).findings
    assert [found.place[0] for found in findings] == ["one.millrace", "two.millrace"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("max_depth: 5", "`max_depth` does not stand in `queue` | it belongs into `retention { … }`"),
        ("retention: 5", "`retention` is written differently here | write `retention { … }`"),
        ("shards: 2 shards: 3", "`shards` stands here twice | remove one of them"),
        ("shards: 101", "`shards` must be between 1 and 100 | write a number from 1 to 100; the nearest is 100"),
        ("shards: 2.5", "`shards` must be a whole number"),
        ("shards: -1", "`shards` must be between 1 and 100"),
        ("ordering: fifo shards: 2", "a fifo queue has one shard | remove `shards`"),
        ("ordering: fivo", "`ordering` must be one of unordered, fifo, per_key | did you mean `fifo`?"),
        ("ordering: per_key", "per_key needs its key | write per_key(payload.id)"),
        ("ordering: per_key(payload.a, payload.b)", "per_key takes one expression"),
        ("ordering: per_key(headers)", "a key must be string or int, this is map"),
        ("ordering: per_key(payload.a) key: payload.b", "per_key(…) is the key already"),
        ("concurrency_per_key: 2", "`concurrency_per_key` needs a key, and this queue is unordered | write `ord"),
        ("key: payload.b concurrency_per_key: 2", "needs a key, and this queue is unordered"),
        ("ordering: fifo concurrency_per_key: 2", "needs a key, and this queue is fifo"),
        ("ordering: per_key(payload.a) concurrency_per_key: 101", "must be between 1 and 100"),
        ("ordering: per_key(payload.a) concurrency_per_key: 0", "must be between 1 and 100"),
        ("ordering: fifo key: payload.b", "a fifo queue has one order for all keys"),
        ("priority: urgent", "there is no priority `urgent`"),
        ("priority: 10000", "`priority` must be between 0 and 9999"),
        ("filter: payload.n + 1", None),
        ("filter: size(payload) + 1", "`filter` must be bool, this is int"),
        ("labels: [1]", '`labels` must be a list of strings | write ["billing", "eu"]'),
        ('labels: ["' + "x" * 300 + '"]', "at most 16 labels with 256 characters"),
        ("project: billing", '`project` must be a string | write it in quotes: "…"'),
        ("rate_limit { }", "`rate_limit` has no rate"),
        ("rate_limit { per_second: 0 }", "`per_second` must be between 0.001 and 100000"),
        ("delivery { max_attempts: 0 }", "`max_attempts` must be between 1 and 100"),
        ("delivery { initial_backoff_ms: 5000 max_backoff_ms: 10 }", "`max_backoff_ms` is below the initial"),
        ("delivery { backoff: none } backoff: full_jitter", "`backoff` stands in `delivery` too"),
        ("idempotency { key: headers }", "`key` must be string or int, this is map"),
        ("idempotency { cache_result: yes }", "`cache_result` must be true or false"),
        ("delivery { dead_letter_queue: \"Jobs\" }", "must be the name of a queue | write Jobs without quotes"),
        ("map_to: comand A.B {}", "there is no target `comand` | did you mean `command`?"),
        ("map_to: command Create {}", "a command is named by its entity and its own name"),
        ('map_to: command "A.B" {}', "`command` takes a name | write `command Entity.Name { … }`"),
        ('map_to: http "http://example.com" {}', "an address starts with https://"),
        ('map_to: http "https://user:pw@example.com/" {}', "this is not an address"),
        ('map_to: http "https://[" {}', "this is not an address"),
        ("map_to: http example {}", "`http` takes a string"),
        ('map_to: lambda "a b" {}', "not the name of a Lambda function"),
        ("map_to: command A.B { id: payload.a id: payload.b }", "`id` is mapped twice"),
        ('x: "\\q"', "\\q is no escape"),
        ("shards: 1u", "unsigned numbers are not used here; write 1"),
        ("shards: 99999999999999999999", "an int is at most"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_queue_is_named_with_its_remedy(body: str, says: str | None) -> None:
    found = messages(queue_text(body))
    if says is None:
        assert found == []
    else:
        assert any(says in message for message in found), found


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ("a: strng", "there is no type `strng` | did you mean `string`?"),
        ("a: list", "a list has one type of item | write list<string>"),
        ("a: map<int>", "a map has a type of key and a type of value"),
        ("a: map<float, int>", "a key is a string, an int or an enum"),
        ("a: string<int>", "`string` takes nothing in `<…>`"),
        ('a: choice("x")', 'write enum("first", "second")'),
        ('a: enum("x", "x")', "the enum names a value twice"),
        ("a: int a: string", "the field `a` is declared twice"),
        ("while: int", "CEL keeps the word `while` for itself"),
        ("a: " + "list<" * 20 + "int" + ">" * 20, "the type is nested deeper than 12"),
    ],
)
def test_a_mistake_in_a_message_type_is_named_with_its_remedy(fields: str, says: str) -> None:
    assert says in only_message(queue_text("", message=f"message_type {{ {fields} }}"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("app { }", "this `app` has no name | write `app Name { … }`"),
        ("queue Jobs {}", "`queue` does not stand at the top of a file | it belongs into `app { … }`"),
        (
            "app A { queue Jobs { fed_by: api map_to: command A.B } }",
            "the queue `Jobs` has no message_type, and its map_to reads the message",
        ),
        ("app A { queue Jobs { key: payload.id } }", "no message_type, and its key reads the message"),
        ("app A { queue Jobs { filter: payload.go } }", "no message_type, and its filter reads the message"),
        ("app A { queue Jobs { ordering: per_key(payload.id) } }", "and its per_key reads the message"),
        ("app A { queue Jobs { idempotency { key: payload.id } } }", "and its idempotency key reads the message"),
        (f"app A {{ queue {'x' * 65} {{ {MESSAGE} }} }}", "a name has at most 64 letters"),
        ("app A { queue Jobs {", "this block is not closed | add `}` where it ends"),
        ("app A { } }", "unexpected `}`"),
        ("app A { queue Jobs, }", "no separator is needed"),
        ("app A { queue J { filter: a and b } }", "for `and` write `&&`"),
        ("app A { # note\n}", "a comment starts with `//`"),
        ('app A { queue J { project: "x\n } }', 'the string has no end on its line | close it with "'),
    ],
)
def test_a_mistake_in_the_frame_is_named_with_its_remedy(text: str, says: str) -> None:
    assert any(says in message for message in messages(text)), messages(text)


def test_a_syntax_error_does_not_hide_mistakes_elsewhere_nor_invent_any() -> None:
    text = f"""app Test {{
  queue One {{ {MESSAGE} fed_by: api  map_to: command A.B {{ id: payload. }} }}
  queue Two {{ {MESSAGE} {QUIET} shards: 700 }}
  webhook W {{ queue: One  provider: github  secret_env: "S" }}
}}"""
    assert [found.place[1] for found in compile_text(text).findings] == [2, 3]


def test_a_broken_statement_is_not_also_called_missing() -> None:
    found = messages("app A { queue Jobs { message_type [ payload: json ] shards: 200 } }")
    assert not any("has no message_type" in message or "nobody" in message for message in found), found
    assert any("`shards` must be between" in message for message in found)
