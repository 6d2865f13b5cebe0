"""The minimal client with the SDK's own credentials, wherever the SDK finds them."""

from __future__ import annotations

from pathlib import Path

import boto3
import pytest
from botocore.credentials import ReadOnlyCredentials

from millrace.aws.session import session_client
from millrace.stores.dynamodb.minimal_client import Credentials, MinimalClient

KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@pytest.fixture(autouse=True)
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop: nothing in the environment, everything in files."""
    for name in (*KEYS, "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL_DYNAMODB"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = mine\naws_secret_access_key = secret\n")
    (tmp_path / "config").write_text("[default]\nregion = eu-north-1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))


def test_region_and_credentials_come_from_the_profile() -> None:
    client = session_client()
    assert isinstance(client, MinimalClient)
    assert client._host == "dynamodb.eu-north-1.amazonaws.com"
    assert client._credentials() == Credentials("mine", "secret", "")


def test_a_region_and_an_endpoint_that_are_given_win() -> None:
    client = session_client("eu-west-1", "http://127.0.0.1:8123")
    assert isinstance(client, MinimalClient)
    assert (client._host, client._port) == ("127.0.0.1", 8123)
    named = session_client("eu-west-1")
    assert isinstance(named, MinimalClient)
    assert named._host == "dynamodb.eu-west-1.amazonaws.com"


def test_credentials_that_the_sdk_renews_are_the_ones_that_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """A role's last an hour: a client that kept the first ones would be refused from then on."""

    class Role:
        """Renewed each time that it is asked."""

        def __init__(self) -> None:
            self._keys = iter(["first", "second"])

        def get_frozen_credentials(self) -> ReadOnlyCredentials:
            return ReadOnlyCredentials(next(self._keys), "s", "t")

    role = Role()
    monkeypatch.setattr(boto3.Session, "get_credentials", lambda _self: role)
    client = session_client("eu-west-1")
    assert isinstance(client, MinimalClient)
    assert [client._credentials().access_key for _ in range(2)] == ["first", "second"]
