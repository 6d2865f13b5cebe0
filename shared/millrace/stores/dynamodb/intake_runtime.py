"""A runtime for functions that only enqueue: a lean client, and neither boto3 nor PynamoDB before they are needed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import cast

from millrace.queue import Runtime
from millrace.recording import history_log
from millrace.settings import Settings
from millrace.store import Blobs, Store
from millrace.stores.dynamodb.calls import Calls
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.intake import IntakeStore
from millrace.stores.dynamodb.lean import lean_client

#: Both writes of an enqueue fit into the ten seconds that GitHub waits, and GitHub never sends again by itself.
DEADLINE_S = 4.0


class BlobsOnDemand:
    """The bucket of large bodies. Few webhooks are that large, so boto3 is imported with the first one."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket

    @cached_property
    def _blobs(self) -> Blobs:
        import boto3

        from millrace.stores.dynamodb.blobs import S3Blobs

        return S3Blobs(boto3.client("s3"), self._bucket)

    def put(self, key: str, data: bytes) -> None:
        self._blobs.put(key, data)

    def get(self, key: str) -> bytes:
        return self._blobs.get(key)


def intake_runtime(settings: Settings, environment: Mapping[str, str]) -> Runtime:
    """Store and blobs as the settings name them; region, credentials and endpoints as the environment says."""
    names = TableNames(settings.queue_table, settings.dead_letter_table)
    client = lean_client(environment)
    store = cast("Store", IntakeStore(client, names, calls=Calls(client, deadline_s=DEADLINE_S)))
    return Runtime(store, BlobsOnDemand(settings.body_bucket), history=history_log(on=settings.log_history))
