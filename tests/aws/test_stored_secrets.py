"""The one secret of a deployment: empty at first, replaced whole, never over somebody else's change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from millrace.aws.stored_secrets import SecretsUnreachable, StoredSecrets


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with mock_aws():
        yield boto3.client("secretsmanager", region_name="eu-west-1")


def test_a_secret_that_was_made_empty_is_filled_key_by_key(client: Any) -> None:
    client.create_secret(Name="shop/webhooks")
    assert StoredSecrets("shop/webhooks", client).read() == {}
    for name in ("A", "B"):
        stored = StoredSecrets("shop/webhooks", client)
        stored.write({**stored.read(), name: name.lower()})
    assert StoredSecrets("shop/webhooks", client).read() == {"A": "a", "B": "b"}


def test_a_change_in_between_is_not_undone(client: Any) -> None:
    client.create_secret(Name="shop/webhooks", SecretString="{}")
    slow, fast = StoredSecrets("shop/webhooks", client), StoredSecrets("shop/webhooks", client)
    held = slow.read()
    fast.write({**fast.read(), "FAST": "1"})
    with pytest.raises(SecretsUnreachable, match="could not be read or written"):
        slow.write({**held, "SLOW": "2"})
    assert StoredSecrets("shop/webhooks", client).read() == {"FAST": "1"}


def test_a_secret_that_is_not_there_is_named(client: Any) -> None:
    with pytest.raises(SecretsUnreachable, match=r"none/webhooks.*Is the stack deployed"):
        StoredSecrets("none/webhooks", client).read()


def test_no_region_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(SecretsUnreachable, match="AWS_PROFILE or AWS_REGION"):
        StoredSecrets("x").read()
