"""Signatures of requests: botocore's signer is the oracle."""

from __future__ import annotations

import random

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as SdkCredentials

from millrace.stores.dynamodb.minimal_client import CONTENT_TYPE, Credentials, Signer


class _At(SigV4Auth):
    """botocore's signer at a moment of our choice."""

    def __init__(self, credentials: SdkCredentials, region: str, stamp: str) -> None:
        super().__init__(credentials, "dynamodb", region)
        self.stamp = stamp

    def add_auth(self, request: AWSRequest) -> None:
        request.context["timestamp"] = self.stamp
        self._modify_request_before_signing(request)  # type: ignore[attr-defined]
        canonical = self.canonical_request(request)
        signature = self.signature(self.string_to_sign(request, canonical), request)
        self._inject_signature_to_request(request, signature)  # type: ignore[attr-defined]


def _botocore(host: str, region: str, target: str, body: bytes, keys: Credentials, stamp: str) -> dict[str, str]:
    request = AWSRequest("POST", f"https://{host}/", headers={"Content-Type": CONTENT_TYPE, "X-Amz-Target": target})
    request.data = body
    request.headers["X-Amz-Date"] = stamp
    _At(SdkCredentials(keys.access_key, keys.secret_key, keys.session_token or None), region, stamp).add_auth(request)
    return dict(request.headers.items())


def test_signature_is_the_one_that_botocore_makes() -> None:
    rng = random.Random(7)
    for number in range(300):
        region = rng.choice(["eu-west-1", "us-east-1", "ap-southeast-2"])
        host = rng.choice([f"dynamodb.{region}.amazonaws.com", "127.0.0.1:8000"])
        token = rng.choice(["", "IQoJb3JpZ2luX2VjE//////////w==" * 8])
        keys = Credentials(f"AKID{number}", rng.randbytes(20).hex(), token)
        body = rng.randbytes(rng.choice([0, 1, 64, 4_000]))
        target = rng.choice(["DynamoDB_20120810.PutItem", "DynamoDB_20120810.BatchExecuteStatement"])
        ours = Signer(host, region).headers(target, body, keys, 1_772_442_847 + number * 40_000)
        theirs = _botocore(host, region, target, body, keys, ours["x-amz-date"])
        assert ours["authorization"] == theirs["Authorization"]


def test_signing_key_changes_with_the_day_and_with_the_secret() -> None:
    signer, keys = Signer("h", "r"), [Credentials("a", "one"), Credentials("a", "two")]
    moments = [1_772_442_847, 1_772_442_847 + 86_400]
    kept = [signer.headers("T", b"", key, at)["authorization"] for at in moments for key in keys]
    fresh = [Signer("h", "r").headers("T", b"", key, at)["authorization"] for at in moments for key in keys]
    assert kept == fresh
    assert len(set(kept)) == 4


def test_credentials_are_in_no_repr() -> None:
    assert "hush" not in repr(Credentials("AKID", "hush", "hush"))
