"""A scheme that would not protect cannot be built."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.signatures import ConfigurationMissing, Scheme
from millrace.signatures.scheme import Names

PLAIN = Names("X-Signature")
DATED = Names("X-Signature", timestamp="X-Time")
NAMED = Names("X-Signature", timestamp="X-Time", id="X-Id")


def test_a_template_is_split_into_literals_and_the_fields_that_follow() -> None:
    scheme = Scheme("s", (NAMED,), template="v0:{id}.{timestamp}.{body}!", tolerance_seconds=300)
    assert scheme.parts == ((b"v0:", "id"), (b".", "timestamp"), (b".", "body"), (b"!", ""))
    assert scheme.signs_id
    assert scheme.timed


def test_a_scheme_without_a_time_is_not_timed() -> None:
    scheme = Scheme("s", (PLAIN,))
    assert not scheme.timed
    assert not scheme.signs_id


@pytest.mark.parametrize(
    ("names", "settings", "says"),
    [
        (PLAIN, {"template": "{timestamp}"}, "with body"),
        (PLAIN, {"template": "{body}{secret}"}, "with body"),
        (PLAIN, {"template": "{body"}, "not closed"),
        (PLAIN, {"template": "{body!r}"}, "bare name"),
        (DATED, {"template": "{body}", "tolerance_seconds": 300}, "only where it is signed"),
        (PLAIN, {"template": "{timestamp}.{body}", "tolerance_seconds": 300}, "only where it is signed"),
        (DATED, {"template": "{timestamp}.{body}"}, "needs a tolerance"),
        (DATED, {"template": "{timestamp}.{body}", "tolerance_seconds": 0}, "needs a tolerance"),
        (PLAIN, {"timestamp_field": "at"}, "needs a tolerance"),
        (DATED, {"template": "{id}.{timestamp}.{body}", "tolerance_seconds": 300}, "header of the id"),
    ],
)
def test_what_is_not_signed_or_not_bounded_is_refused(names: Names, settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationMissing) as refused:
        Scheme("s", (names,), **settings)
    assert says in refused.value.problem
