"""Schemes as definitions name them, and what each provider expects."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.signatures import (
    PRESETS,
    ConfigurationMissing,
    generic,
    preset,
    scheme_from,
)


def test_definition_names_a_provider_a_header_or_a_formula() -> None:
    assert scheme_from({"provider": "github"}) is not None
    assert scheme_from({"provider": "github"}) == preset("github")
    assert scheme_from({"header": "X-PagerDuty-Signature"}) == preset("pagerduty")
    assert scheme_from({"header": "X-Hub-Signature-256", "prefix": None}) == preset("github")
    assert scheme_from({"header": "X-Mine"}) == generic("x-mine")
    assert scheme_from({"header": "X-PagerDuty-Signature", "prefix": "v1="}).name == "generic"
    assert scheme_from({"provider": "stripe", "tolerance_seconds": 60}).tolerance_seconds == 60


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"provider": "gitbub"},
        {"provider": "github", "tolerance_seconds": 60},
        {"provider": "github", "prefix": "x"},
        {"provider": "stripe", "tolerance_seconds": 0},
        {"provider": "stripe", "tolerance_seconds": -1},
        {"header": ""},
        {"header": "X-Mine", "algorithm": "md5"},
        {"header": "X-Mine", "encoding": "base32"},
        {"header": "X-Mine", "separator": "|"},
        {"header": "X-Mine", "algorithm": "token", "template": "{body}"},
        {"header": "X-Mine", "algorithm": "token", "timestamp_header": "X-Time"},
        {"header": "X-Mine", "encoding": "plain"},
        {"header": "X-Mine", "key": "hexx"},
        {"header": "X-Mine", "place": "cookie"},
        {"header": "X-Mine", "algorithm": "ed25519"},
        {"header": "X-Mine", "timestamp_prefix": "t=", "template": "{body}"},
        {"header": "X-Mine", "timestamp_prefix": "t=", "timestamp_header": "X-Time"},
        {"header": "X-Mine", "tolerance_seconds": 60},
        {"header": "X-Mine", "timestamp_header": "X-Time", "tolerance_seconds": 0},
        {"header": "X-Mine", "timestamp_header": "X-Time", "template": "{body}"},
        {"header": "X-Mine", "timestamp_header": "X-Time", "timestamp_unit": "days"},
        {"header": "X-Mine", "template": "{timestamp}.{body}"},
        {"header": "X-Mine", "template": "{id}.{body}"},
        {"header": "X-Mine", "template": "{timestamp}"},
        {"header": "X-Mine", "template": "constant"},
        {"header": "X-Mine", "template": "{body"},
        {"header": "X-Mine", "template": "{body!r}"},
        {"header": "X-Mine", "template": "{body.__class__}"},
        {"header": "X-Mine", "template": "{secret}{body}"},
        {"header": "X-Mine", "tolerence": 1},
    ],
)
def test_definition_that_could_not_protect_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationMissing):
        scheme_from(settings)


def test_presets_say_how_each_provider_takes_an_answer() -> None:
    facts = {name: scheme.facts for name, scheme in PRESETS.items()}
    assert facts["zoom"].success_status == 200
    assert (facts["zoom"].answer_within_seconds, facts["shopify"].answer_within_seconds) == (3, 5)
    assert (facts["pagerduty"].overload_status, facts["pagerduty"].answer_within_seconds) == (429, 5)
    assert facts["github"].redelivers is False
    assert {fact.success_status for fact in facts.values()} <= {200, 202, 204}
    assert {name for name, fact in facts.items() if fact.overload_status != 503} == {"pagerduty"}


def test_no_tolerance_loses_a_providers_own_retries() -> None:
    """Linear and Zoom send the first time again with every retry, the last one hours later."""
    documented = {name: row for name, row in PRESETS.items() if row.timed and row.facts.retries_within_seconds}
    assert set(documented) >= {"linear", "zoom"}
    for row in documented.values():
        assert row.tolerance_seconds is not None
        assert row.facts.retries_within_seconds is not None
        assert row.tolerance_seconds >= row.facts.retries_within_seconds


def test_a_header_that_is_anybodys_names_no_provider() -> None:
    """GoCardless signs the body in hex in a header of the standard's name."""
    assert scheme_from({"header": "Webhook-Signature"}) == generic("webhook-signature")
    assert scheme_from({"header": "Shopify-Hmac-Sha256"}) == preset("shopify")
