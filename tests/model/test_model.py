"""The engine does what it promises, in any order of its operations: on both stores, by one reference."""

from __future__ import annotations

from mypy_boto3_dynamodb import DynamoDBClient

from millrace.stores.dynamodb import DynamoStore, TableNames
from millrace.stores.memory import MemoryStore
from tests.model.machine import run


def test_the_engine_keeps_its_promises_in_memory() -> None:
    run(lambda _clock: MemoryStore(), examples=50, steps=40)


def test_the_engine_keeps_its_promises_on_dynamodb(engine_client: DynamoDBClient, tables: TableNames) -> None:
    run(lambda clock: DynamoStore(engine_client, tables, clock=clock), examples=2, steps=25)
