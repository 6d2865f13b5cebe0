"""Secrets by reference: fetched once, kept for their age, missing ones fail closed."""

from __future__ import annotations

import logging

import pytest

from millrace.signatures import (
    ConfigurationMissing,
    SecretSource,
    SecretUnavailable,
    SignatureInvalid,
    authenticate,
    preset,
)
from tests.conftest import Clock
from tests.signatures.cases import NOW, changed, delivery
from tests.signatures.source import GITHUB, HIDDEN, MINUTE, REFERENCE, Store, assert_hidden, signed_with


def test_secret_is_fetched_once_and_kept_for_its_age(source: SecretSource, store: Store, clock: Clock) -> None:
    for _ in range(100):
        assert [secret.value for secret in source.resolve(REFERENCE)] == [HIDDEN]
    assert store.calls == 1
    clock.now += 5 * MINUTE - 1
    source.resolve(REFERENCE)
    assert store.calls == 1
    clock.now += 1
    source.resolve(REFERENCE)
    assert store.calls == 2


def test_silent_store_leaves_the_copy_at_hand_for_an_hour(source: SecretSource, store: Store, clock: Clock) -> None:
    source.resolve(REFERENCE)
    store.down = True
    for minutes in range(60):
        clock.now = NOW + minutes * MINUTE
        assert source.resolve(REFERENCE)
    clock.now = NOW + 61 * MINUTE
    with pytest.raises(SecretUnavailable):
        source.resolve(REFERENCE)
    store.down = False
    clock.now += 5_000
    assert source.resolve(REFERENCE)


def test_silent_store_is_asked_every_five_seconds_while_nothing_is_known(
    source: SecretSource, store: Store, clock: Clock
) -> None:
    store.down = True
    for tenth in range(200):
        clock.now = NOW + tenth * 100
        with pytest.raises(SecretUnavailable):
            source.resolve(REFERENCE)
    assert store.calls == 4


def test_deleted_secret_stops_serving_at_the_next_look(source: SecretSource, store: Store, clock: Clock) -> None:
    source.resolve(REFERENCE)
    del store.values["hook"]
    clock.now += MINUTE
    with pytest.raises(ConfigurationMissing):
        authenticate(GITHUB, signed_with("wrong"), source, REFERENCE, clock())
    with pytest.raises(ConfigurationMissing):
        authenticate(GITHUB, signed_with(HIDDEN), source, REFERENCE, clock())
    assert store.calls == 2


def test_missing_secret_fails_closed_and_is_asked_for_once_a_minute(clock: Clock) -> None:
    store = Store()
    source = SecretSource(clock, environ={}, fetchers={"ssm": store})
    for second in range(120):
        clock.now = NOW + second * 1000
        with pytest.raises(ConfigurationMissing):
            authenticate(GITHUB, signed_with(HIDDEN), source, ["ssm:none"], clock())
    assert store.calls == 2


@pytest.mark.parametrize("environ", [{}, {"HOOK": ""}, {"HOOK": " \n"}, {"HOOK": "[]"}])
def test_missing_or_empty_variable_fails_closed(environ: dict[str, str], clock: Clock) -> None:
    with pytest.raises(ConfigurationMissing):
        SecretSource(clock, environ=environ).resolve(["env:HOOK"])


def test_no_reference_or_an_unknown_kind_fails_closed(clock: Clock) -> None:
    for references in ([], ["HOOK"], ["file:/etc/passwd"], [""]):
        with pytest.raises(ConfigurationMissing):
            SecretSource(clock, environ={"HOOK": "x"}).resolve(references)


def test_secret_is_in_no_repr_text_log_or_error(
    source: SecretSource, store: Store, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    request = signed_with(HIDDEN)
    verified = authenticate(GITHUB, request, source, REFERENCE, clock())
    secret = verified.secret
    signature = request.headers.one("x-hub-signature-256")
    shown = [
        f(thing) for f in (repr, str, "{}".format) for thing in (secret, verified, source, request, request.headers)
    ]
    assert HIDDEN not in "".join(shown)
    assert signature not in "".join(shown)
    assert HIDDEN not in repr([secret]) + repr({"s": secret})
    with pytest.raises(SignatureInvalid) as refused:
        authenticate(GITHUB, changed(request, body=b"x"), source, REFERENCE, clock())
    assert_hidden(refused.value)
    with pytest.raises(ConfigurationMissing) as missing:
        authenticate(preset("standard_webhooks"), delivery(preset("standard_webhooks")), source, REFERENCE, clock())
    assert_hidden(missing.value)
    assert HIDDEN not in caplog.text
