"""A runtime for functions that only enqueue: a lean client, and neither boto3 nor PynamoDB before they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import cast

from millrace.aws.settings import Settings
from millrace.engine.queue import Runtime
from millrace.history.log import history_log
from millrace.model.body import Blobs
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.enqueue_store import EnqueueStore
from millrace.stores.dynamodb.minimal_client import minimal_client
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.interface import Store

#: Both writes of an enqueue fit into the ten seconds that GitHub waits, and GitHub never sends again by itself.
DEADLINE_S = 4.0


class BlobsOnDemand:
    """The bucket of large bodies. Few webhooks are that large, so boto3 is imported with the first one."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    @cached_property
    def _blobs(self) -> Blobs:
        import boto3

        from millrace.aws.blobs import S3Blobs

        return S3Blobs(boto3.client("s3"), self._bucket)

    def put(self, key: str, data: bytes) -> None:
        self._blobs.put(key, data)

    def get(self, key: str) -> bytes:
        return self._blobs.get(key)


def enqueue_runtime(settings: Settings, environment: Mapping[str, str]) -> Runtime:
    """Store and blobs as the settings name them; region, credentials and endpoints as the environment says."""
    names = TableNames(settings.queue_table, settings.dead_letter_table)
    client = minimal_client(environment)
    store = cast("Store", EnqueueStore(client, names, calls=RetryingClient(client, deadline_s=DEADLINE_S)))
    return Runtime(store, BlobsOnDemand(settings.body_bucket), history=history_log(on=settings.log_history))
