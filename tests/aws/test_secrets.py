"""Secrets from Secrets Manager and Parameter Store."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from millrace.aws.secrets import powertools_fetch
from millrace.signatures import (
    ConfigurationMissing,
    SecretSource,
    SecretUnavailable,
    SignatureInvalid,
    authenticate,
)
from tests.conftest import Clock
from tests.signatures.cases import NOW, URL
from tests.signatures.source import GITHUB, HIDDEN, MINUTE, signed_with


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


def test_secrets_manager_is_asked_once_a_minute_under_a_flood(aws: None, api_calls: list[str], clock: Clock) -> None:
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


def test_parameter_store_is_decrypted_and_cached(aws: None, api_calls: list[str], clock: Clock) -> None:
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
def test_secret_that_never_was_is_told_from_silence(aws: None, reference: str, clock: Clock) -> None:
    with pytest.raises(ConfigurationMissing) as missing:
        SecretSource(clock, environ={}, open_store=powertools_fetch).resolve([reference])
    assert not isinstance(missing.value, SecretUnavailable)


def test_store_that_does_not_answer_is_told_from_a_missing_secret(
    aws: None, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    from botocore.client import BaseClient
    from botocore.exceptions import EndpointConnectionError

    def broken(self: BaseClient, operation: str, arguments: dict[str, Any]) -> object:
        raise EndpointConnectionError(endpoint_url=URL)

    monkeypatch.setattr(BaseClient, "_make_api_call", broken)
    with pytest.raises(SecretUnavailable):
        SecretSource(clock, environ={}, open_store=powertools_fetch).resolve(["secretsmanager:hooks/github"])
