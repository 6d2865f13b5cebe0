"""The classic design, to be measured against: one table, an index on due time, one call a step."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from uuid import uuid4

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

TABLE = "millrace-bench-classic"
INDEX = "due"


class ClassicQueue:
    """Put; query the index and claim by a conditional update; delete."""

    def __init__(self, client: DynamoDBClient, name: str) -> None:
        self._client = client
        self._name = name

    @staticmethod
    def create_table(client: DynamoDBClient) -> None:
        client.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[
                {"AttributeName": "id", "AttributeType": "S"},
                {"AttributeName": "queue", "AttributeType": "S"},
                {"AttributeName": "due", "AttributeType": "N"},
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": INDEX,
                    "KeySchema": [
                        {"AttributeName": "queue", "KeyType": "HASH"},
                        {"AttributeName": "due", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                }
            ],
        )

    def enqueue(self, body: bytes) -> None:
        self._client.put_item(
            TableName=TABLE,
            Item={
                "id": {"S": uuid4().hex},
                "queue": {"S": self._name},
                "due": {"N": str(_now())},
                "attempts": {"N": "0"},
                "body": {"S": body.decode()},
            },
            ConditionExpression="attribute_not_exists(id)",
        )

    def claim_and_delete(self, _body: object = None) -> bool:
        """One message through; False when somebody else was quicker, or nothing is due."""
        now = _now()
        found = self._client.query(
            TableName=TABLE,
            IndexName=INDEX,
            KeyConditionExpression="queue = :queue AND due <= :now",
            ExpressionAttributeValues={":queue": {"S": self._name}, ":now": {"N": str(now)}},
            Limit=1,
        )["Items"]
        if not found:
            return False
        key, token = {"id": found[0]["id"]}, uuid4().hex
        try:
            self._client.update_item(
                TableName=TABLE,
                Key=key,
                UpdateExpression="SET due = :until, claim = :token ADD attempts :one",
                ConditionExpression="due = :seen",
                ExpressionAttributeValues={
                    ":until": {"N": str(now + 30_000)},
                    ":token": {"S": token},
                    ":one": {"N": "1"},
                    ":seen": found[0]["due"],
                },
            )
        except ClientError:
            return False
        self._client.delete_item(
            TableName=TABLE,
            Key=key,
            ConditionExpression="claim = :token",
            ExpressionAttributeValues={":token": {"S": token}},
        )
        return True


def _now() -> int:
    return time.time_ns() // 1_000_000
