"""The canary: writes transactions of its own all the while, and knows which of them the engine has acknowledged.

Where one of those is missing in the end, the engine has lost what it promised to keep, and the run shows nothing
about the queue.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from infra.local.dynamodb import REGION

TABLE = "chaos-canary"
ONCE = Config(retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=10)


class Canary(threading.Thread):
    """Two items in one transaction, again and again, until `over` is set."""

    def __init__(self, url: str, every_s: float) -> None:
        super().__init__(name="canary", daemon=True)
        self.client: Any = boto3.client("dynamodb", endpoint_url=url, region_name=REGION, config=ONCE)
        self.every_s = every_s
        self.over = threading.Event()
        self.acknowledged: list[int] = []
        self.heard_at = time.monotonic()
        self.client.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        )

    def run(self) -> None:
        number = 0
        while not self.over.wait(self.every_s):
            number += 1
            puts = [{"Put": {"TableName": TABLE, "Item": {"pk": {"S": f"{number}{half}"}}}} for half in "ab"]
            try:
                self.client.transact_write_items(TransactItems=puts)
                self.acknowledged.append(number)
                self.heard_at = time.monotonic()
            except (BotoCoreError, ClientError):
                continue

    def lost(self) -> list[int]:
        """Acknowledged, and not there any more."""
        there: set[str] = set()
        for page in self.client.get_paginator("scan").paginate(TableName=TABLE, ConsistentRead=True):
            there |= {item["pk"]["S"] for item in page["Items"]}
        return [number for number in self.acknowledged if not {f"{number}a", f"{number}b"} <= there]
