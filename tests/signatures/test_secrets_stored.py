"""Stored secrets: one value, or a list with names and windows."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from millrace.signatures import (
    ConfigurationMissing,
    Secret,
    SecretSource,
)
from tests.conftest import Clock
from tests.signatures.source import HIDDEN, assert_hidden


def resolved(clock: Clock, text: str, reference: str = "env:HOOK") -> tuple[Secret, ...]:
    return SecretSource(clock, environ={"HOOK": text}).resolve([reference])


GOOD = {"name": "a", "value": HIDDEN}


def test_plain_value_is_one_secret_without_the_newline_of_a_file(clock: Clock) -> None:
    for text in ("plain", "plain\n", "plain\r\n"):
        assert resolved(clock, text) == (Secret("env:HOOK", "plain"),)
    for text in ("12345", "true", '"quoted"', "[odd", "{odd", "it's: ünicode {}"):
        assert resolved(clock, text)[0].value == text


def test_list_gives_names_and_windows(clock: Clock) -> None:
    text = json.dumps(
        [
            {"name": "2025", "value": "old", "not_after": "2026-03-02T10:00:00+01:00"},
            {"name": "2026", "value": "new", "not_before": 1772442000, "not_after": None},
        ],
        indent=2,
    )
    end = int(datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp() * 1000)
    expected = (Secret("2025", "old", None, end), Secret("2026", "new", 1772442000_000, None))
    assert resolved(clock, text) == expected
    assert resolved(clock, json.dumps({"github": json.loads(text)}), "env:HOOK#github") == expected
    assert resolved(clock, json.dumps({"github": "plain"}), "env:HOOK#github") == (Secret("env:HOOK#github", "plain"),)


@pytest.mark.parametrize(
    "document",
    [
        {"github": HIDDEN},
        [HIDDEN],
        [GOOD, GOOD],
        [{**GOOD, "not_afer": 1}],
        [{**GOOD, "not_after": "tomorrow"}],
        [{**GOOD, "not_after": "2026-03-02T10:00:00"}],
        [{**GOOD, "not_after": True}],
        [{**GOOD, "not_after": 1.5}],
        [{"value": HIDDEN}],
        [{"name": "", "value": HIDDEN}],
        [{"name": "a"}],
        [{"name": "a", "value": ""}],
        [{"name": "a", "value": 7}],
        [GOOD, None],
        [],
    ],
)
def test_list_that_is_not_exactly_right_fails_closed_and_shows_nothing(document: object, clock: Clock) -> None:
    with pytest.raises(ConfigurationMissing) as missing:
        resolved(clock, json.dumps(document))
    assert_hidden(missing.value)


@pytest.mark.parametrize(
    "text", ['[{"name": "a", "value": "' + HIDDEN, '{"github": "' + HIDDEN, '[\n  {"value":"' + HIDDEN]
)
def test_broken_json_fails_closed_and_shows_nothing(text: str, clock: Clock) -> None:
    with pytest.raises(ConfigurationMissing) as missing:
        resolved(clock, text)
    assert_hidden(missing.value)


@pytest.mark.parametrize(
    "text", ["plain", "[1]", '{"other": "x"}', '{"github": null}', '{"github": ""}', '{"github": 7}']
)
def test_key_that_is_not_there_fails_closed(text: str, clock: Clock) -> None:
    with pytest.raises(ConfigurationMissing):
        resolved(clock, text, "env:HOOK#github")
