"""Definitions together: names, cycles, queues that nobody feeds or drains."""

from __future__ import annotations

import pytest

from millrace.definitions.language.source import Severity
from tests.definitions.writing import MESSAGE, compile_text, loaded, messages


def queue(name: str, body: str) -> str:
    return f"queue {name} {{ {MESSAGE} {body} }}\n"


def dead(name: str, to: str) -> str:
    return queue(name, f"fed_by: api drained_by: api delivery {{ dead_letter_queue: {to} }}")


@pytest.mark.parametrize(
    ("queues", "way"),
    [
        (dead("A", "A"), "A → A"),
        (dead("A", "B") + dead("B", "A"), "A → B → A"),
        (dead("Start", "A") + dead("A", "B") + dead("B", "C") + dead("C", "A"), "A → B → C → A"),
    ],
)
def test_dead_letters_must_not_go_in_a_circle(queues: str, way: str) -> None:
    (found,) = messages(f"app T {{ {queues} }}")
    assert f"dead letters go in a circle: {way}" in found


def test_dead_letters_live_as_long_as_their_queue_keeps_messages() -> None:
    graveyard = queue("Graveyard", "retention { max_age_seconds: 604800 }")
    definitions = loaded(f"app T {{ {dead('Jobs', 'Graveyard')} {graveyard} {dead('Other', 'Graveyard')} }}")
    assert definitions.queue("Jobs").spec.retention.dead_letter_seconds == 604_800
    assert definitions.queue("Graveyard").spec.retention.dead_letter_seconds == 14 * 86_400


def test_a_queue_that_nobody_feeds_or_drains_is_a_warning() -> None:
    compilation = compile_text(f"app T {{ {queue('Lonely', '')} }}")
    assert [(found.severity, found.message) for found in compilation.findings] == [
        (Severity.WARNING, "nobody feeds the queue `Lonely`"),
        (Severity.WARNING, "nobody drains the queue `Lonely`"),
    ]
    assert compilation.definitions is not None


def test_queues_that_feed_each_other_are_a_warning() -> None:
    a, b = queue("A", "map_to: queue B"), queue("B", "map_to: queue A")
    (found,) = compile_text(f"app T {{ {a} {b} }}").findings
    assert found.severity is Severity.WARNING
    assert "queues feed each other: A → B → A" in found.message


def test_an_unknown_queue_is_named_with_the_nearest_one() -> None:
    feeding = queue("Jobs", "fed_by: api map_to: queue Mial {}")
    found = messages(f"app T {{ {feeding} queue Mail {{ message_type {{}} fed_by: api drained_by: api }} }}")
    assert found == ["there is no queue `Mial` | did you mean `Mail`?"]


def test_a_mapping_must_fit_the_queue_that_it_feeds() -> None:
    mail = "queue Mail { message_type { to: string  subject: string  note?: string } drained_by: api }"
    wrong = queue("Jobs", "fed_by: api map_to: queue Mail { to: payload.to  subjet: payload.title }")
    assert messages(f"app T {{ {wrong} {mail} }}") == [
        "messages of `Mail` also need subject | add `subject: …` to the mapping",
        "messages of `Mail` have no field `subjet` | did you mean `subject`?",
    ]


@pytest.mark.parametrize("kind", ["queue", "webhook"])
def test_two_of_one_name_are_refused(kind: str) -> None:
    body = f"{MESSAGE} fed_by: api drained_by: api" if kind == "queue" else "verify: none map_to: command A.B {}"
    (found,) = messages(f"app T {{ {kind} Same {{ {body} }} {kind} Same {{ {body} }} }}")
    assert f"there are two {kind}s named `Same`" in found


def test_a_queue_that_outlives_its_large_bodies_is_a_warning() -> None:
    graveyard = queue("Graveyard", "fed_by: api drained_by: api retention { max_age_seconds: 4320000 }")
    compilation = compile_text(f"app T {{ {dead('Jobs', 'Graveyard')} {graveyard} }}")
    found = [str(warning) for warning in compilation.warnings]
    assert len(found) == 2
    assert any("`Jobs` are gone after 60 days, and needed for 61" in text for text in found), found
    assert all("BodyDays=" in text for text in found)
