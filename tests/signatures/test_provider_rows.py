"""Providers with something of their own."""

from __future__ import annotations

from millrace.signatures import PRESETS, preset
from millrace.signatures.scheme import ChallengeKind


def test_every_kind_of_question_belongs_to_a_row() -> None:
    assert {row.challenge for row in PRESETS.values()} - {None} == set(ChallengeKind)


def test_shopify_knows_both_families_of_its_headers() -> None:
    shopify = preset("shopify")
    assert [names.signature for names in shopify.names] == ["x-shopify-hmac-sha256", "shopify-hmac-sha256"]
    assert {"x-shopify-topic", "shopify-topic"} <= set(shopify.facts.event_headers)
    assert "orders/paid" in shopify.kinds
