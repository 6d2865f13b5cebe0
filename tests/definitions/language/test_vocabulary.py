"""Every word of the language has its place, and every number its limits."""

from __future__ import annotations

from millrace.definitions.language.vocabulary import LIMITS, REPEATABLE, VOCABULARY, home_of
from tests.definitions.writing import only_message, queue_text


def test_each_word_is_found_where_it_belongs() -> None:
    assert [home_of(name) for name in ("app", "shards", "max_attempts", "valid_from")] == [
        "file",
        "queue",
        "delivery",
        "secret",
    ]
    assert home_of("nonsense") is None


def test_limits_and_repeatable_words_are_words_of_the_language() -> None:
    words = {name for block in VOCABULARY.values() for name in (*block.properties, *block.blocks)}
    assert LIMITS.keys() | REPEATABLE <= words
    assert all(low <= high for low, high in LIMITS.values())


def test_each_limit_of_a_queue_holds() -> None:
    for name in set(LIMITS) & set(VOCABULARY["queue"].properties) - {"priority", "concurrency_per_key"}:
        high = LIMITS[name][1]
        assert f"{high:,.0f}".replace(",", "") in only_message(queue_text(f"{name}: {int(high) + 1}")).replace(",", "")
