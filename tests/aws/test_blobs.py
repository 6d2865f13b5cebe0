"""Large bodies: to the bucket and back, boto3 imported only for them."""

from __future__ import annotations

import random
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from millrace.aws.blobs import S3Blobs
from millrace.engine.queue import Runtime
from millrace.engine.status import status
from millrace.model.errors import BodyLost, StoreUnavailable
from millrace.stores.memory.queue import MemoryStore
from tests.conftest import Clock
from tests.webhooks.gate import Gate, open_gate


def test_body_of_several_megabytes_goes_to_the_bucket_and_comes_back_whole(
    clock: Clock, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = random.Random(5).randbytes(4_500_000)
    with mock_aws():
        where: Any = {"LocationConstraint": "eu-west-1"}
        boto3.client("s3").create_bucket(Bucket="bodies", CreateBucketConfiguration=where)
        gate = Gate(open_gate(Runtime(MemoryStore(), S3Blobs("bodies"), clock=clock), tenant), monkeypatch)
        answer = gate.send("Binary", body, headers={"content-type": "application/octet-stream"})
        queue = gate.queue("Blobs")
        message = status(queue, answer.json["message_id"]).message
        assert message.body.blob
        assert queue.runtime.bodies.read(message) == body


def test_bucket_that_does_not_take_a_body_is_our_fault(
    clock: Clock, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mock_aws():
        gate = Gate(open_gate(Runtime(MemoryStore(), S3Blobs("missing"), clock=clock), tenant), monkeypatch)
        body = random.Random(5).randbytes(100_000)
        answer = gate.send("Binary", body, headers={"content-type": "application/octet-stream"})
        assert (answer.status, answer.json["code"]) == (503, "store_unavailable")
        assert "missing" not in answer.text


def test_a_deleted_body_is_gone_and_may_be_deleted_again() -> None:
    with mock_aws():
        boto3.client("s3", "us-east-1").create_bucket(Bucket="bodies")
        blobs = S3Blobs("bodies", region="us-east-1")
        blobs.put("k", b"x")
        for _ in range(2):
            blobs.delete("k")
            with pytest.raises(BodyLost):
                blobs.get("k")
        with pytest.raises(StoreUnavailable, match="deleted"):
            S3Blobs("missing", region="us-east-1").delete("k")


class Bucket:
    """A bucket whose answers are errors by their codes."""

    def __init__(self, got: str, listed: str | list[dict[str, str]] = "AccessDenied") -> None:
        self._got = got
        self._listed = listed

    def get_object(self, **_: str) -> Any:
        raise ClientError({"Error": {"Code": self._got}}, "GetObject")

    def list_objects_v2(self, **_: str) -> Any:
        if isinstance(self._listed, str):
            raise ClientError({"Error": {"Code": self._listed}}, "ListObjectsV2")
        return {"Contents": self._listed} if self._listed else {}


@pytest.mark.parametrize(
    ("got", "listed", "error"),
    [
        ("NoSuchKey", "AccessDenied", BodyLost),
        ("AccessDenied", "AccessDenied", BodyLost),  # as S3 says to those who may not list
        ("AccessDenied", [], BodyLost),
        ("AccessDenied", [{"Key": "k"}], StoreUnavailable),  # it is there: the role is wrong
        ("AccessDenied", "SlowDown", StoreUnavailable),
        ("NoSuchBucket", [], StoreUnavailable),
        ("SlowDown", [], StoreUnavailable),
        ("InternalError", [], StoreUnavailable),
    ],
)
def test_a_body_that_is_gone_is_lost_and_any_other_error_is_the_stores(
    got: str, listed: Any, error: type[Exception]
) -> None:
    client: Any = Bucket(got, listed)
    with pytest.raises(error):
        S3Blobs("bodies", client).get("k")


def test_a_bucket_without_the_body_has_lost_it() -> None:
    with mock_aws():
        where: Any = {"LocationConstraint": "eu-west-1"}
        boto3.client("s3").create_bucket(Bucket="bodies", CreateBucketConfiguration=where)
        with pytest.raises(BodyLost):
            S3Blobs("bodies").get("k")
