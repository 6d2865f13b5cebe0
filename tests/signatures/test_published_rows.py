"""Providers that publish their keys: how often they are asked, and what becomes of a call meanwhile."""

from __future__ import annotations

import pytest

from millrace.signatures import ConfigurationMissing, PublishedKeys, Secret, preset, verify
from millrace.signatures.published_rows import PUBLISHED
from millrace.signatures.signing import deliver
from tests.signatures.cases import NOW, URL, delivery, refusal, secret_of
from tests.signatures.issuers import Makers

ROWS = [row for row in PUBLISHED if row.published]


@pytest.mark.parametrize("scheme", ROWS, ids=lambda row: row.name)
def test_a_hundred_deliveries_cost_one_question(scheme: object) -> None:
    row = next(row for row in ROWS if row is scheme)
    makers = Makers()
    keys = PublishedKeys(makers, lambda: NOW)
    for _ in range(100):
        assert refusal(row, delivery(row), keys=keys) is None
    assert len(makers.asked) == 1
    assert makers.asked[0].url.startswith("https://")


@pytest.mark.parametrize("scheme", ROWS, ids=lambda row: row.name)
def test_without_a_way_to_fetch_keys_nothing_is_accepted(scheme: object) -> None:
    row = next(row for row in ROWS if row is scheme)
    with pytest.raises(ConfigurationMissing):
        verify(row, delivery(row), [secret_of(row)], NOW)


def test_nobody_else_can_sign_as_a_maker_of_published_keys() -> None:
    for row in ROWS:
        with pytest.raises(ConfigurationMissing) as refused:
            deliver(row, Secret("s", "x"), URL, b"{}", NOW, delivery_id="d")
        assert "have it send a test delivery" in refused.value.problem


def test_a_header_of_a_token_means_no_hmac() -> None:
    from millrace.signatures import scheme_from

    assert scheme_from({"header": "X-Webhook-Signature"}).name == "generic"
    assert preset("netlify").jwt is not None
