"""Keys in AWS KMS, as moto has it: which answers are an outage, and which a loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from moto import mock_aws

from millrace.aws.kms import KmsKeys
from millrace.model.errors import KeyLost, KeyUnavailable

ALIAS = "alias/shop-acme"
OURS, THEIRS = {"tenant": "acme", "queue": "Jobs"}, {"tenant": "globex", "queue": "Jobs"}


@pytest.fixture
def kms() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("kms", "eu-west-1")
        key = client.create_key()["KeyMetadata"]["KeyId"]
        client.create_alias(AliasName=ALIAS, TargetKeyId=key)
        yield client


@pytest.fixture
def keys(kms: Any) -> KmsKeys:
    return KmsKeys(region="eu-west-1")


def test_a_data_key_is_made_and_unwrapped_for_its_own_queue(keys: KmsKeys) -> None:
    made = keys.generate(ALIAS, OURS)
    assert len(made.secret) == 32
    assert made.key_id.startswith("arn:aws:kms:eu-west-1:")
    assert keys.unwrap(made.key_id, made.wrapped, OURS) == made.secret
    with pytest.raises(KeyLost):
        keys.unwrap(made.key_id, made.wrapped, THEIRS)
    with pytest.raises(KeyLost):
        keys.unwrap(made.key_id, made.wrapped[:-1] + b"x", OURS)


def test_an_alias_that_is_not_there_is_an_outage_and_a_key_that_is_gone_a_loss(keys: KmsKeys) -> None:
    made = keys.generate(ALIAS, OURS)
    with pytest.raises(KeyUnavailable, match="alias/nobody"):
        keys.generate("alias/nobody", OURS)
    with pytest.raises(KeyLost, match="gone"):
        keys.unwrap(made.key_id[:-1] + "0", made.wrapped, OURS)


class Refusing:
    """A client that answers every call with one error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def decrypt(self, **_given: Any) -> Any:
        raise self._error

    generate_data_key = decrypt


def answered(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "m"}}, "Decrypt")


@pytest.mark.parametrize(
    "error",
    [
        *map(
            answered,
            [
                "AccessDeniedException",
                "DisabledException",
                "KMSInvalidStateException",  # to be deleted: it may still be kept
                "ThrottlingException",
                "KeyUnavailableException",
                "KMSInternalException",
            ],
        ),
        EndpointConnectionError(endpoint_url="https://kms"),
    ],
    ids=str,
)
def test_whatever_may_pass_is_an_outage(error: Exception) -> None:
    client: Any = Refusing(error)
    keys = KmsKeys(client)
    with pytest.raises(KeyUnavailable, match="k1"):
        keys.unwrap("k1", b"w", OURS)
    with pytest.raises(KeyUnavailable, match="k1"):
        keys.generate("k1", OURS)


@pytest.mark.parametrize("code", ["NotFoundException", "InvalidCiphertextException", "IncorrectKeyException"])
def test_what_nothing_will_change_is_a_loss_for_who_reads_and_an_outage_for_who_writes(code: str) -> None:
    client: Any = Refusing(answered(code))
    with pytest.raises(KeyLost):
        KmsKeys(client).unwrap("k1", b"w", OURS)
    with pytest.raises(KeyUnavailable):
        KmsKeys(client).generate("k1", OURS)
