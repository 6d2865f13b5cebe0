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
from millrace.signatures.scheme import DeliveryFacts


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
    within = {name: fact.delivery.within_seconds for name, fact in facts.items()}
    assert (within["zoom"], within["shopify"], within["pagerduty"]) == (3, 5, 5)
    assert (facts["github"].delivery.retries, facts["shopify"].delivery.retries) == (0, 8)
    assert facts["pagerduty"].overload_status == 429
    assert {name for name, fact in facts.items() if fact.overload_status != 503} == {"pagerduty"}


def test_every_provider_is_answered_what_it_takes_as_delivered() -> None:
    """Plaid, Paddle, TikTok and others take nothing but 200; 202 is for those that are known to take it."""
    known = {name: row.facts for name, row in PRESETS.items() if row.facts.delivery.accepts}
    assert {name for name, fact in known.items() if not fact.delivery.takes(fact.success_status)} == set()
    unknown = {name: row.facts.success_status for name, row in PRESETS.items() if name not in known}
    assert {name for name, status in unknown.items() if status not in (200, 204)} == set()
    assert {fact.delivery.accepts for fact in known.values()} >= {"2xx", "200", "204", "200 204"}


@pytest.mark.parametrize(
    ("accepts", "taken"), [("2xx", {200, 202, 204}), ("200", {200}), ("200 204", {200, 204}), ("", set())]
)
def test_what_counts_as_delivered(accepts: str, taken: set[int]) -> None:
    assert {status for status in (200, 202, 204, 302, 404, 503) if DeliveryFacts(accepts).takes(status)} == taken


def test_no_tolerance_loses_a_providers_own_retries() -> None:
    """Linear and Zoom send the first time again with every retry; of some nobody says."""
    rows = [row for row in PRESETS.values() if row.timed and not row.facts.delivery.restamps]
    documented = {row.name: row.facts.delivery.over_seconds or 0 for row in rows}
    assert {name for name, seconds in documented.items() if seconds} >= {
        "linear",
        "zoom",
        "discord",
        "sendgrid",
        "tiktok",
    }
    lost = [row.name for row in rows if (row.tolerance_seconds or 0) < documented[row.name]]
    assert lost == []


def test_a_header_that_is_anybodys_names_no_provider() -> None:
    """GoCardless signs the body in hex in a header of the standard's name."""
    assert scheme_from({"header": "Webhook-Signature"}) == generic("webhook-signature")
    assert scheme_from({"header": "Shopify-Hmac-Sha256"}) == preset("shopify")
