"""What the ingress brings along: little at a cold start, boto3 only for a body that is too large for the table."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from millrace.aws.blobs import S3Blobs
from millrace.engine.queue import Runtime
from millrace.engine.status import status
from millrace.model.body import read_body
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.memory.queue import MemoryStore
from tests.conftest import Clock
from tests.webhooks.gate import Gate, open_gate
from tests.webhooks.test_serve_events import SECRETS

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("boto3", "botocore.session", "botocore.client", "pynamodb", "lark", "cel", "celpy", "pydantic", "pyspark")
SERVE_ONE = """
import json, sys
sys.path[:0] = [{root!r} + "/shared", {root!r}]
from functions.ingress import handler
answer = handler.handler(json.load(open({event!r})), None)
handler.ingress().runtime.store._calls.client.close()
print(answer["statusCode"], [name for name in {heavy!r} if name in sys.modules])
"""


def test_accepting_a_webhook_imports_neither_boto3_nor_pynamodb(
    engine_url: str, tables: TableNames, tenant: str
) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
        **SECRETS,
        "QUEUE_TABLE": tables.queue,
        "DEAD_LETTER_TABLE": tables.dead_letters,
        "BODY_BUCKET": "bodies",
        "DEFINITIONS": str(ROOT / "infra" / "definitions.json"),
        "DEFAULT_TENANT": tenant,
        "AWS_ENDPOINT_URL_DYNAMODB": engine_url,
    }
    code = SERVE_ONE.format(root=str(ROOT), event=str(ROOT / "events" / "ingress-github-v2.json"), heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "202 []"


def test_body_of_five_megabytes_goes_to_the_bucket_and_comes_back_whole(
    clock: Clock, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = random.Random(5).randbytes(5_000_000)
    with mock_aws():
        where: Any = {"LocationConstraint": "eu-west-1"}
        boto3.client("s3").create_bucket(Bucket="bodies", CreateBucketConfiguration=where)
        gate = Gate(open_gate(Runtime(MemoryStore(), S3Blobs("bodies"), clock=clock), tenant), monkeypatch)
        answer = gate.send("Binary", body, headers={"content-type": "application/octet-stream"})
        queue = gate.queue("Blobs")
        message = status(queue, answer.json["message_id"]).message
        assert message.body.blob
        assert read_body(message.body, queue.runtime.blobs) == body


def test_bucket_that_does_not_take_a_body_is_our_fault(
    clock: Clock, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mock_aws():
        gate = Gate(open_gate(Runtime(MemoryStore(), S3Blobs("missing"), clock=clock), tenant), monkeypatch)
        body = random.Random(5).randbytes(100_000)
        answer = gate.send("Binary", body, headers={"content-type": "application/octet-stream"})
        assert (answer.status, answer.json["code"]) == (503, "store_unavailable")
        assert "missing" not in answer.text
