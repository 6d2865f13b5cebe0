"""A signature that does not match may be a rotation: the secret is fetched anew, once a minute."""

from __future__ import annotations

import json

import pytest

from millrace.signatures import (
    RefusalReason,
    SecretSource,
    SignatureInvalid,
    authenticate,
)
from tests.conftest import Clock
from tests.signatures.cases import NOW, changed
from tests.signatures.source import GITHUB, HIDDEN, MINUTE, REFERENCE, Store, signed_with


def test_rotated_secret_is_picked_up_on_a_mismatch(source: SecretSource, store: Store, clock: Clock) -> None:
    authenticate(GITHUB, signed_with(HIDDEN), source, REFERENCE, clock())
    store.values["hook"] = "rotated"
    clock.now += MINUTE
    assert authenticate(GITHUB, signed_with("rotated"), source, REFERENCE, clock()).secret_name == REFERENCE[0]
    assert store.calls == 2


def test_flood_of_bad_signatures_costs_one_call_a_minute(source: SecretSource, store: Store, clock: Clock) -> None:
    for second in range(600):
        clock.now = NOW + second * 1000
        with pytest.raises(SignatureInvalid):
            authenticate(GITHUB, signed_with("wrong"), source, REFERENCE, clock())
    assert store.calls == 10


def test_request_without_a_signature_fetches_nothing_anew(source: SecretSource, store: Store, clock: Clock) -> None:
    source.resolve(REFERENCE)
    clock.now += 2 * MINUTE
    with pytest.raises(SignatureInvalid) as refused:
        authenticate(GITHUB, changed(signed_with(HIDDEN), headers=[]), source, REFERENCE, clock())
    assert refused.value.reason is RefusalReason.MISSING_HEADER
    assert store.calls == 1


def test_lapsed_secret_is_looked_up_again(source: SecretSource, store: Store, clock: Clock) -> None:
    store.values["hook"] = json.dumps([{"name": "a", "value": HIDDEN, "not_after": NOW // 1000 + 30}])
    source.resolve(REFERENCE)
    store.values["hook"] = json.dumps([{"name": "b", "value": "newer"}])
    clock.now += MINUTE
    assert authenticate(GITHUB, signed_with("newer"), source, REFERENCE, clock()).secret_name == "b"
