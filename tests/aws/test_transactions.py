"""Transactions of an app of one's own, from the variables that the functions have too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infra.local.dynamodb import REGION
from millrace.aws.settings import SettingMissing
from millrace.aws.transactions import Transactions
from millrace.engine.claim import claim
from millrace.engine.queue import Runtime
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from tests.app_table import Orders
from tests.conftest import TABLES

ROOT = Path(__file__).parents[2]


def test_an_order_and_its_job_are_written_together(
    engine_url: str, dynamo_store: DynamoStore, tenant: str, engine_client: Any
) -> None:
    orders = Orders(dynamo_store, tenant, engine_client)
    environment = {
        "QUEUE_TABLE": TABLES.queue,
        "DEAD_LETTER_TABLE": TABLES.dead_letters,
        "BODY_BUCKET": "bodies",
        "DEFINITIONS": str(ROOT / "infra" / "definitions.json"),
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_DYNAMODB": engine_url,
    }
    transactions = Transactions.from_environment(environment, tenant)
    with transactions() as both:
        both.write(orders.put(7))
        notice = both.enqueue("PaymentNotices", {"event_id": "evt_1", "type": "invoice.paid"})
    transactions._runtime.store._calls.client.close()  # type: ignore[attr-defined]
    assert orders.charges(7) == 1
    spec = transactions._definitions.queue("PaymentNotices").spec
    queue = Runtime(dynamo_store, MemoryBlobs()).queue(tenant, spec)
    assert [held.message.id for held in claim(queue, owner="w").claims] == [notice.receipt.message_id]


def test_a_missing_variable_is_named() -> None:
    with pytest.raises(SettingMissing, match="QUEUE_TABLE"):
        Transactions.from_environment({})
