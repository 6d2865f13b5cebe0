"""Where secrets come from: cached, refreshed on a mismatch once a minute, closed on every fault, and never shown."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest
from moto import mock_aws

from millrace.aws.secrets import powertools_fetch
from millrace.signatures import (
    ConfigurationMissing,
    RefusalReason,
    Secret,
    SecretSource,
    SecretUnavailable,
    SignatureInvalid,
    authenticate,
    preset,
)
from millrace.signatures.request import WebhookRequest
from millrace.signatures.secrets import SecretMissing, StoreSilent
from tests.signatures.cases import NOW, URL, changed, delivery

GITHUB = preset("github")
MINUTE = 60_000
HIDDEN = "hunter2-hunter2"


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now


class Store:
    """A place for secrets that counts its calls."""

    def __init__(self, **values: str) -> None:
        self.values, self.calls, self.down = values, 0, False

    def __call__(self, name: str) -> str:
        self.calls += 1
        if self.down:
            raise StoreSilent
        if name not in self.values:
            raise SecretMissing
        return self.values[name]


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def store() -> Store:
    return Store(hook=HIDDEN)


@pytest.fixture
def source(clock: Hands, store: Store) -> SecretSource:
    return SecretSource(clock, environ={}, fetchers={"secretsmanager": store})


REFERENCE = ["secretsmanager:hook"]


def signed_with(value: str) -> WebhookRequest:
    return delivery(GITHUB, secret=Secret("sender", value))


def test_secret_is_fetched_once_and_kept_for_its_age(source: SecretSource, store: Store, clock: Hands) -> None:
    for _ in range(100):
        assert [secret.value for secret in source.resolve(REFERENCE)] == [HIDDEN]
    assert store.calls == 1
    clock.now += 5 * MINUTE - 1
    source.resolve(REFERENCE)
    assert store.calls == 1
    clock.now += 1
    source.resolve(REFERENCE)
    assert store.calls == 2


def test_rotated_secret_is_picked_up_on_a_mismatch(source: SecretSource, store: Store, clock: Hands) -> None:
    authenticate(GITHUB, signed_with(HIDDEN), source, REFERENCE, clock())
    store.values["hook"] = "rotated"
    clock.now += MINUTE
    assert authenticate(GITHUB, signed_with("rotated"), source, REFERENCE, clock()).secret_name == REFERENCE[0]
    assert store.calls == 2


def test_flood_of_bad_signatures_costs_one_call_a_minute(source: SecretSource, store: Store, clock: Hands) -> None:
    for second in range(600):
        clock.now = NOW + second * 1000
        with pytest.raises(SignatureInvalid):
            authenticate(GITHUB, signed_with("wrong"), source, REFERENCE, clock())
    assert store.calls == 10


def test_request_without_a_signature_fetches_nothing_anew(source: SecretSource, store: Store, clock: Hands) -> None:
    source.resolve(REFERENCE)
    clock.now += 2 * MINUTE
    with pytest.raises(SignatureInvalid) as refused:
        authenticate(GITHUB, changed(signed_with(HIDDEN), headers=[]), source, REFERENCE, clock())
    assert refused.value.reason is RefusalReason.MISSING_HEADER
    assert store.calls == 1


def test_lapsed_secret_is_looked_up_again(source: SecretSource, store: Store, clock: Hands) -> None:
    store.values["hook"] = json.dumps([{"name": "a", "value": HIDDEN, "not_after": NOW // 1000 + 30}])
    source.resolve(REFERENCE)
    store.values["hook"] = json.dumps([{"name": "b", "value": "newer"}])
    clock.now += MINUTE
    assert authenticate(GITHUB, signed_with("newer"), source, REFERENCE, clock()).secret_name == "b"


def test_silent_store_leaves_the_copy_at_hand_for_an_hour(source: SecretSource, store: Store, clock: Hands) -> None:
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
    source: SecretSource, store: Store, clock: Hands
) -> None:
    store.down = True
    for tenth in range(200):
        clock.now = NOW + tenth * 100
        with pytest.raises(SecretUnavailable):
            source.resolve(REFERENCE)
    assert store.calls == 4


def test_deleted_secret_stops_serving_at_the_next_look(source: SecretSource, store: Store, clock: Hands) -> None:
    source.resolve(REFERENCE)
    del store.values["hook"]
    clock.now += MINUTE
    with pytest.raises(ConfigurationMissing):
        authenticate(GITHUB, signed_with("wrong"), source, REFERENCE, clock())
    with pytest.raises(ConfigurationMissing):
        authenticate(GITHUB, signed_with(HIDDEN), source, REFERENCE, clock())
    assert store.calls == 2


def test_missing_secret_fails_closed_and_is_asked_for_once_a_minute(clock: Hands) -> None:
    store = Store()
    source = SecretSource(clock, environ={}, fetchers={"ssm": store})
    for second in range(120):
        clock.now = NOW + second * 1000
        with pytest.raises(ConfigurationMissing):
            authenticate(GITHUB, signed_with(HIDDEN), source, ["ssm:none"], clock())
    assert store.calls == 2


@pytest.mark.parametrize("environ", [{}, {"HOOK": ""}, {"HOOK": " \n"}, {"HOOK": "[]"}])
def test_missing_or_empty_variable_fails_closed(environ: dict[str, str], clock: Hands) -> None:
    with pytest.raises(ConfigurationMissing):
        SecretSource(clock, environ=environ).resolve(["env:HOOK"])


def test_no_reference_or_an_unknown_kind_fails_closed(clock: Hands) -> None:
    for references in ([], ["HOOK"], ["file:/etc/passwd"], [""]):
        with pytest.raises(ConfigurationMissing):
            SecretSource(clock, environ={"HOOK": "x"}).resolve(references)


def resolved(clock: Hands, text: str, reference: str = "env:HOOK") -> tuple[Secret, ...]:
    return SecretSource(clock, environ={"HOOK": text}).resolve([reference])


def test_plain_value_is_one_secret_without_the_newline_of_a_file(clock: Hands) -> None:
    for text in ("plain", "plain\n", "plain\r\n"):
        assert resolved(clock, text) == (Secret("env:HOOK", "plain"),)
    for text in ("12345", "true", '"quoted"', "[odd", "{odd", "it's: ünicode {}"):
        assert resolved(clock, text)[0].value == text


def test_list_gives_names_and_windows(clock: Hands) -> None:
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


GOOD = {"name": "a", "value": HIDDEN}


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
def test_list_that_is_not_exactly_right_fails_closed_and_shows_nothing(document: object, clock: Hands) -> None:
    with pytest.raises(ConfigurationMissing) as missing:
        resolved(clock, json.dumps(document))
    assert_hidden(missing.value)


@pytest.mark.parametrize(
    "text", ['[{"name": "a", "value": "' + HIDDEN, '{"github": "' + HIDDEN, '[\n  {"value":"' + HIDDEN]
)
def test_broken_json_fails_closed_and_shows_nothing(text: str, clock: Hands) -> None:
    with pytest.raises(ConfigurationMissing) as missing:
        resolved(clock, text)
    assert_hidden(missing.value)


@pytest.mark.parametrize(
    "text", ["plain", "[1]", '{"other": "x"}', '{"github": null}', '{"github": ""}', '{"github": 7}']
)
def test_key_that_is_not_there_fails_closed(text: str, clock: Hands) -> None:
    with pytest.raises(ConfigurationMissing):
        resolved(clock, text, "env:HOOK#github")


def assert_hidden(error: BaseException) -> None:
    """The secret is in no text, attribute or context of an error."""
    seen: BaseException | None = error
    while seen is not None:
        shown = [str(seen), repr(seen), repr(seen.args), repr(vars(seen)), getattr(seen, "doc", "")]
        assert HIDDEN not in "".join(map(str, shown))
        seen = seen.__cause__ or seen.__context__
    assert HIDDEN not in "".join(traceback.format_exception(error))


def test_secret_is_in_no_repr_text_log_or_error(
    source: SecretSource, store: Store, clock: Hands, caplog: pytest.LogCaptureFixture
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


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "eu-central-1",
    }.items():
        monkeypatch.setenv(name, value)
    with mock_aws():
        yield


@pytest.fixture
def api_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operations that any client calls."""
    from botocore.client import BaseClient

    calls: list[str] = []
    original: Callable[..., object] = vars(BaseClient)["_make_api_call"]

    def counted(self: BaseClient, operation: str, arguments: dict[str, Any]) -> object:
        calls.append(operation)
        return original(self, operation, arguments)

    monkeypatch.setattr(BaseClient, "_make_api_call", counted)
    return calls


def test_secrets_manager_is_asked_once_a_minute_under_a_flood(aws: None, api_calls: list[str], clock: Hands) -> None:
    client = boto3.client("secretsmanager")
    client.create_secret(Name="hooks/github", SecretString=json.dumps({"live": HIDDEN}))
    source, references = (
        SecretSource(clock, environ={}, open_store=powertools_fetch),
        ["secretsmanager:hooks/github#live"],
    )
    for second in range(180):
        clock.now = NOW + second * 1000
        with pytest.raises(SignatureInvalid):
            authenticate(GITHUB, signed_with("wrong"), source, references, clock())
    assert api_calls.count("GetSecretValue") == 3
    client.put_secret_value(SecretId="hooks/github", SecretString=json.dumps({"live": "rotated"}))
    clock.now += MINUTE
    assert authenticate(GITHUB, signed_with("rotated"), source, references, clock())
    assert api_calls.count("GetSecretValue") == 4
    client.delete_secret(SecretId="hooks/github")
    clock.now += 5 * MINUTE
    with pytest.raises(ConfigurationMissing) as missing:
        authenticate(GITHUB, signed_with("rotated"), source, references, clock())
    assert not isinstance(missing.value, SecretUnavailable)


def test_parameter_store_is_decrypted_and_cached(aws: None, api_calls: list[str], clock: Hands) -> None:
    boto3.client("ssm").put_parameter(Name="/hooks/github", Value=HIDDEN, Type="SecureString")
    source = SecretSource(clock, environ={}, open_store=powertools_fetch)
    for _ in range(10):
        assert authenticate(GITHUB, signed_with(HIDDEN), source, ["ssm:/hooks/github"], clock())
    assert api_calls.count("GetParameter") == 1
    for _ in range(10):
        with pytest.raises(ConfigurationMissing):
            source.resolve(["ssm:/hooks/none"])
    assert api_calls.count("GetParameter") == 2


@pytest.mark.parametrize("reference", ["secretsmanager:hooks/none", "ssm:/hooks/none"])
def test_secret_that_never_was_is_told_from_silence(aws: None, reference: str, clock: Hands) -> None:
    with pytest.raises(ConfigurationMissing) as missing:
        SecretSource(clock, environ={}, open_store=powertools_fetch).resolve([reference])
    assert not isinstance(missing.value, SecretUnavailable)


def test_store_that_does_not_answer_is_told_from_a_missing_secret(
    aws: None, monkeypatch: pytest.MonkeyPatch, clock: Hands
) -> None:
    from botocore.client import BaseClient
    from botocore.exceptions import EndpointConnectionError

    def broken(self: BaseClient, operation: str, arguments: dict[str, Any]) -> object:
        raise EndpointConnectionError(endpoint_url=URL)

    monkeypatch.setattr(BaseClient, "_make_api_call", broken)
    with pytest.raises(SecretUnavailable):
        SecretSource(clock, environ={}, open_store=powertools_fetch).resolve(["secretsmanager:hooks/github"])


def test_secret_can_be_compared_but_not_shown_by_a_dataclass_tool() -> None:
    secret = Secret("a", HIDDEN)
    assert pickle.loads(pickle.dumps(secret)) == secret  # noqa: S301
    assert secret != Secret("a", "other")
