"""From a Spark executor to the tables: one client for each Python worker process.

The cache is a module's, not the job file's: Spark imports a module once for a process and unpickles the job's own
functions anew for each task.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3

from millrace.aws.blobs import S3Blobs
from millrace.engine.queue import Runtime
from millrace.spark.metered_client import MeteredClient
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.minimal_client import minimal_client
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.signing import Credentials
from millrace.stores.dynamodb.store import DynamoStore


@dataclass(frozen=True, slots=True)
class TableConnection:
    """Where the tables are. Region, credentials and endpoints come from the SDK's own places unless given."""

    queue_table: str
    dead_letter_table: str
    body_bucket: str
    region: str | None = None
    endpoint_url: str | None = None
    s3_endpoint_url: str | None = None
    #: How long a batch is repeated when the table turns it away. The two writes of an enqueue must fit in a minute.
    deadline_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Tables:
    """An open connection: the runtime, and the client whose pace can be set."""

    runtime: Runtime
    client: MeteredClient


@cache
def connect(connection: TableConnection) -> Tables:
    """This process's line to the tables; the same one for every task that it runs."""
    session = boto3.Session(region_name=connection.region)
    environment = {**os.environ, "AWS_REGION": session.region_name or ""}
    if connection.endpoint_url:
        environment["AWS_ENDPOINT_URL_DYNAMODB"] = connection.endpoint_url
    client = MeteredClient(minimal_client(environment, _credentials(session)))
    names = TableNames(connection.queue_table, connection.dead_letter_table)
    store = DynamoStore(client, names, calls=RetryingClient(client, deadline_s=connection.deadline_s))  # type: ignore[arg-type]
    return Tables(Runtime(store, _LateBlobs(connection)), client)


def _credentials(session: boto3.Session) -> Callable[[], Credentials] | None:
    """The role's credentials, renewed by the SDK before they run out: an executor's environment holds none."""
    found = session.get_credentials()
    if found is None:
        return None

    def current() -> Credentials:
        frozen = found.get_frozen_credentials()
        return Credentials(frozen.access_key or "", frozen.secret_key or "", frozen.token or "")

    return current


class _LateBlobs:
    """The bucket of large bodies; its client is made when the first one comes, which is seldom."""

    def __init__(self, connection: TableConnection) -> None:
        self._connection = connection
        self._blobs: S3Blobs | None = None
        self._lock = threading.Lock()  # boto3 makes clients for one thread at a time

    def _open(self) -> S3Blobs:
        with self._lock:
            if self._blobs is None:
                client: Any = boto3.client(
                    "s3", endpoint_url=self._connection.s3_endpoint_url, region_name=self._connection.region
                )
                self._blobs = S3Blobs(client, self._connection.body_bucket)
            return self._blobs

    def put(self, key: str, data: bytes) -> None:
        self._open().put(key, data)

    def get(self, key: str) -> bytes:
        return self._open().get(key)
