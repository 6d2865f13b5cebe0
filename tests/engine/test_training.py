"""A dictionary holds what many messages share, and nothing else."""

from __future__ import annotations

import json
import random
import re

from millrace.engine.training import SHARED_BY, make_content
from millrace.model.dictionary import MAX_CONTENT, Dictionary


def bodies(count: int, own: int = 0) -> list[bytes]:
    """Alike but for ids and names; `own` of them share a value of their own."""
    return [
        json.dumps(
            {
                "event": "order.created",
                "id": f"evt-{number * 7919:x}",
                "customer": {"name": f"Person {number}", "mail": f"p{number}@example.com", "plan": "free"},
                "note": "seen by few" if number < own else f"note {number}",
                f"field-{number}": True,
            },
            indent=2,
        ).encode()
        for number in range(count)
    ]


def test_keys_and_common_values_go_in_as_they_are_sent() -> None:
    content = make_content(bodies(100))
    for shared in (b'"event": "order.created"', b'"customer": {\n    "name": ', b'"plan": "free"', b'"id": '):
        assert shared in content


def test_what_belongs_to_fewer_messages_stays_out() -> None:
    content = make_content(bodies(100, own=SHARED_BY - 1))
    for private in (b"evt-", b"Person", b"example.com", b"seen by few", b"field-"):
        assert private not in content
    assert b"seen by few" in make_content(bodies(100, own=SHARED_BY))


def test_every_token_is_shared_as_the_training_reads_it() -> None:
    """The bound is on messages, not on occurrences: one that repeats a value does not make it common."""
    talkative = b'{"a": [%s]}' % b",".join([b'"mine"'] * 500)
    assert b"mine" not in make_content([*bodies(100), talkative])


def test_a_message_that_is_erased_leaves_nothing() -> None:
    """Take any one message out of the sample: no value of its own is in the dictionary that it helped to make."""
    all_bodies = bodies(60)
    content = make_content(all_bodies)
    for number, body in enumerate(all_bodies):
        others = b"".join(all_bodies[:number] + all_bodies[number + 1 :])
        values = set(re.findall(rb'"([^"]+)"', body))
        assert all(value not in content for value in values if value not in others)


def test_addresses_are_shared_by_their_folder() -> None:
    content = make_content([b'{"url":"https://api.example.com/v1/users/%d","x":1}' % number for number in range(30)])
    assert b'"url":"https://api.example.com/v1/users/' in content
    assert b"29" not in content


def test_few_messages_have_nothing_in_common() -> None:
    assert make_content(bodies(SHARED_BY - 1)) == b""
    assert make_content([]) == b""


def test_the_same_bodies_give_the_same_dictionary() -> None:
    made = {make_content(random.Random(seed).sample(bodies(80), 80)) for seed in range(4)}
    assert len(made) == 1


def test_it_is_never_too_large_and_bodies_come_back() -> None:
    rng = random.Random(1)
    words = [f"{rng.getrandbits(200):x}" for _ in range(500)]
    many = [json.dumps({f"k{word}": word for word in rng.sample(words, 250)}).encode() for _ in range(60)]
    content = make_content(many)
    assert MAX_CONTENT - 200 < len(content) <= MAX_CONTENT
    made = Dictionary(content)
    for body in many:
        assert made.unpack(made.pack(body), len(body)) == body


def test_hostile_documents_are_read_in_time() -> None:
    """Long strings, deep nesting and escapes: each is read once."""
    escapes, blanks = b'"' + b'\\"' * 15_000 + b'"', b" " * 30_000 + b"1"
    nested = (b"[" * 60 + b"]" * 60, b'{"a":' * 60 + b"1" + b"}" * 60)
    assert len(make_content([escapes, blanks, *nested] * 25)) > 1_000
