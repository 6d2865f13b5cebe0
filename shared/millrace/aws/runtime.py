"""A runtime on AWS: what the functions, the worker process and the Spark job share."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from millrace.aws.blobs import S3Blobs
from millrace.engine.queue import Runtime
from millrace.history.log import history_log
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.enqueue_store import EnqueueStore
from millrace.stores.dynamodb.retrying_client import DEADLINE_S, RetryingClient

if TYPE_CHECKING:
    from millrace.aws.settings import Settings
    from millrace.model.body import Blobs
    from millrace.stores.dynamodb.client import AnyClient
    from millrace.stores.interface import Store


def aws_runtime(
    settings: Settings,
    client: AnyClient,
    *,
    deadline_s: float = DEADLINE_S,
    blobs: Blobs | None = None,
    enqueue_only: bool = False,
) -> Runtime:
    """Tables and bucket as the settings name them.

    client      `minimal_client`, which costs a cold start and a request little, or boto3's by `dynamodb_client`
    deadline_s  how long a request is repeated before it counts as unanswered
    blobs       where large bodies lie, when it is not the bucket of the settings
    """
    names = TableNames(settings.queue_table, settings.dead_letter_table)
    calls = RetryingClient(client, deadline_s=deadline_s)
    if enqueue_only:
        store = cast("Store", EnqueueStore(client, names, calls=calls))
    else:
        from millrace.stores.dynamodb.store import DynamoStore

        store = DynamoStore(client, names, calls=calls)
    return Runtime(store, blobs or S3Blobs(settings.body_bucket), history=history_log(on=settings.log_history))
