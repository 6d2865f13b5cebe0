"""One connection for each Python worker process, whatever the number of its tasks."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest

from infra.local.dynamodb import REGION
from millrace.aws.blobs import S3Blobs
from millrace.spark.connection import TableConnection, connect
from millrace.stores.dynamodb.store import DynamoStore

CONNECTION = TableConnection("queues", "letters", "bodies", region=REGION, endpoint_url="http://127.0.0.1:1")


@pytest.fixture(autouse=True)
def _no_connection_before_or_after() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # earlier tests' connections, open as long as their process
        connect.cache_clear()


def test_tasks_of_one_process_share_a_connection() -> None:
    assert connect(CONNECTION) is connect(replace(CONNECTION))
    assert connect(replace(CONNECTION, queue_table="others")) is not connect(CONNECTION)


def test_the_runtime_uses_the_metered_client_and_the_tables_that_were_named() -> None:
    tables = connect(CONNECTION)
    store = tables.runtime.store
    assert isinstance(store, DynamoStore)
    client: object = store._calls.client
    assert client is tables.client
    assert store._names == ("queues", "letters")
    assert isinstance(tables.runtime.blobs, S3Blobs)


def test_both_writes_of_an_enqueue_fit_in_a_minute() -> None:
    """Each is repeated up to the deadline; an entry older than the sender's bound is not committed."""
    store = connect(CONNECTION).runtime.store
    assert isinstance(store, DynamoStore)
    assert store._calls._deadline_s == CONNECTION.deadline_s
    assert 2 * CONNECTION.deadline_s < 60
