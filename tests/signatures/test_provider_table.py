"""Every row of the table says where its facts come from, and the page says what the table says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from millrace.signatures import PRESETS, Scheme, idempotency_key, verify
from millrace.signatures.provider_rows import DETAILED
from millrace.signatures.provider_table import PLAIN
from millrace.signatures.published_rows import PUBLISHED
from tests.signatures.cases import NOW, SCHEMES, delivery, secret_of
from tests.signatures.provider_page import MAKERS, ORACLES, PAGE, RECEIVERS, page, replay

ROOT = Path(__file__).parents[2]


def test_the_page_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(), "run `python -m tests.signatures.provider_page`"


def test_no_provider_is_there_twice_and_each_has_its_source() -> None:
    rows = (*DETAILED, *PUBLISHED, *PLAIN)
    assert len({row.name for row in rows}) == len(rows) == len(PRESETS)
    assert [row.name for row in rows if not re.fullmatch(r"https://[^\s|)]+", row.facts.source)] == []


def test_readme_and_architecture_count_the_providers() -> None:
    for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md"):
        assert re.search(rf"\b{len(PRESETS)} providers", (ROOT / name).read_text("utf-8")), name


def test_readme_counts_the_providers_that_were_checked() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"{len(PRESETS)} providers, {len(ORACLES)} checked against their own libraries" in readme
    compared = {*MAKERS, *RECEIVERS}
    assert not compared & set(ORACLES)
    assert f"{len(compared)} against public code or documentation" in readme
    assert compared | set(ORACLES) == set(PRESETS), "a row from memory is to be compared with something, and named"


def test_every_library_that_is_named_is_asked() -> None:
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_verification_oracles*.py"))
    assert [name for name in ORACLES if f'"{name}"' not in tests] == []


@pytest.mark.parametrize("name", SCHEMES)
def test_what_the_page_says_of_a_replay_is_so(name: str) -> None:
    """A delivery that verifies says the same key for as long as it does; one without a time verifies for ever."""
    scheme: Scheme = SCHEMES[name]
    request = delivery(scheme)
    seconds = scheme.replay_seconds
    century = 100 * 365 * 86_400_000
    later = NOW // 1000 * 1000 + (scheme.tolerance_seconds or 0) * 1000 if seconds else NOW + century
    keys = {
        idempotency_key(scheme, request, verify(scheme, request, [secret_of(scheme)], moment))
        for moment in (NOW, later)
    }
    assert len(keys) == 1
    assert replay(scheme).startswith("again after the window" if seconds is None else "once")
