"""The functions over HTTP on DynamoDB Local: what a client, the CLI and schemathesis talk to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import functions.admin.app as admin
import functions.authoriser.handler as authoriser
import functions.consumer.handler as consumer
import millrace.aws.runtime as aws_runtime
from infra.local.gateway import Binding, Gateway
from millrace.model.clock import system_clock
from millrace.model.tokens import Scope, issue
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.tokens import DynamoTokens
from millrace.stores.memory.queue import MemoryBlobs
from millrace.stores.memory.uploads import MemoryUploads
from tests.pull.calling import defined

QUEUES = {
    "Jobs": defined("Jobs"),
    "Quick": defined(
        "Quick", lease_seconds=1.0, delivery={"jitter": "none", "initial_backoff_ms": 1, "max_attempts": 50}
    ),
    "Ordered": defined("Ordered", ordering="fifo"),
}

SCHEDULES: dict[str, Any] = {
    "Nightly": {
        "app": "Test",
        "queue": "Jobs",
        "cron": "0 3 * * *",
        "timezone": "Europe/Berlin",
        "catch_up": "latest",
        "tenant": None,
        "message": {},
    }
}
WEBHOOKS = {
    "Sales": {
        "app": "Test",
        "provider": "github",
        "hmac": None,
        "secrets": [{"source": "env", "name": "SALES_KEY", "valid_from": None, "valid_until": None}],
        "queue": "Jobs",
        "target": None,
        "message_type": None,
        "public_url": None,
        "tolerance_seconds": None,
        "verify_token": None,
        "tenants": "own",
    }
}


@dataclass(frozen=True)
class Stack:
    """A running stack: where it is, and the environment of its processes."""

    url: str
    environment: dict[str, str]
    table: str

    def token(self, tenant: str, *scopes: Scope) -> str:
        tokens = DynamoTokens(dynamodb_client(), self.table)
        return issue(tokens, name="test", scopes=scopes or list(Scope), tenants=[tenant], clock=system_clock)[1]


@contextmanager
def running(engine_url: str, tables: TableNames, folder: Path) -> Iterator[Stack]:
    """The consumer, the admin function and the authoriser behind a gateway, as the local stack runs them."""
    definitions = folder / "definitions.json"
    definitions.write_text(
        json.dumps({"format": 1, "queues": QUEUES, "webhooks": WEBHOOKS, "schedules": SCHEDULES, "tenants": {}})
    )
    environment = {
        "AWS_ENDPOINT_URL_DYNAMODB": engine_url,
        "QUEUE_TABLE": tables.queue,
        "DEAD_LETTER_TABLE": tables.dead_letters,
        "BODY_BUCKET": "none",
        "DEFINITIONS": str(definitions),
        "SHARED_PROCESS": "1",
    }
    bindings = [
        Binding("GET /v1/openapi.json", consumer.handler),
        Binding("ANY /v1/{proxy+}", consumer.handler, authoriser.handler),
        Binding("ANY /admin/{proxy+}", admin.handler, authoriser.handler),
    ]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr(aws_runtime, "S3Uploads", lambda *_, **__: MemoryUploads(MemoryBlobs(), system_clock))
        for made_once in (consumer._made, admin.service, authoriser.tokens):
            made_once.cache_clear()
        with Gateway(bindings) as gateway:
            yield Stack(gateway.url, environment, tables.queue)
        for made_once in (consumer._made, admin.service, authoriser.tokens):
            made_once.cache_clear()
