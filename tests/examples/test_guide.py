"""The guide's transactions run as they are written there: an order placed with its job, and charged with its ack."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from infra.local.dynamodb import CREDENTIALS, REGION
from millrace.definitions import TargetKind
from millrace.definitions.language.compiler import compile_files
from millrace.definitions.loading import load
from millrace.engine.queue import Runtime
from millrace.engine.status import MessageStatus, status
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from millrace.worker import Commands, TimeLeft
from millrace.worker.drainer import QueueDrainer, WakeRequest
from tests.worker.conftest import AT_ONCE

GUIDE = (Path(__file__).parents[2] / "infra" / "GUIDE.md").read_text("utf-8")
QUEUES = b"""app Shop {
  queue Charges { message_type { number: string }  fed_by: api  map_to: command Order.Charge { number: number } }
}"""


def code(name: str) -> str:
    """The guide's block that defines this function."""
    (found,) = [block for block in re.findall(r"^```python\n(.*?)^```$", GUIDE, re.M | re.S) if f"def {name}(" in block]
    return str(found)


def test_an_order_is_placed_with_its_job_and_charged_with_its_ack(
    engine_url: str,
    engine_client: Any,
    tables: TableNames,
    dynamo_store: DynamoStore,
    tenant: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = compile_files([("shop.millrace", QUEUES)]).text
    (tmp_path / "definitions.json").write_text(compiled)
    orders = f"guide-{tenant}"
    engine_client.create_table(
        TableName=orders,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    variables = {
        **CREDENTIALS,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_DYNAMODB": engine_url,
        "QUEUE_TABLE": tables.queue,
        "DEAD_LETTER_TABLE": tables.dead_letters,
        "BODY_BUCKET": "none",
        "DEFINITIONS": str(tmp_path / "definitions.json"),
        "DEFAULT_TENANT": tenant,
        "ORDERS_TABLE": orders,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    commands = Commands()
    monkeypatch.setattr("millrace.command", commands.command, raising=False)
    page: dict[str, Any] = {}
    exec(code("charge"), page)  # noqa: S102 (the guide's own code)
    exec(code("place_order"), page)  # noqa: S102

    message_id = page["place_order"]("7")
    page["transactions"]()._runtime.store._calls.client.close()
    assert item(engine_client, orders) == {"id": {"S": "7"}}
    drainer = QueueDrainer(
        Runtime(dynamo_store, MemoryBlobs()),
        load(compiled.encode()),
        {TargetKind.COMMAND: commands.deliver},
        AT_ONCE,
    )
    drainer.drain(WakeRequest(tenant, "Charges"), TimeLeft())
    assert status(drainer.queue(tenant, "Charges"), message_id).status is MessageStatus.DONE
    assert item(engine_client, orders) == {"id": {"S": "7"}, "charges": {"N": "1"}}


def item(client: Any, table: str) -> Any:
    return client.get_item(TableName=table, Key={"id": {"S": "7"}}, ConsistentRead=True)["Item"]
