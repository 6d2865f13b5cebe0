"""A runtime on AWS: what the functions, the worker process and the Spark job share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millrace.aws.blobs import S3Blobs
from millrace.engine.queue import Runtime
from millrace.history.log import history_log
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.retrying_client import DEADLINE_S, RetryingClient
from millrace.stores.dynamodb.store import DynamoStore

if TYPE_CHECKING:
    from millrace.aws.settings import Settings
    from millrace.model.body import Blobs
    from millrace.stores.dynamodb.client import AnyClient


def aws_runtime(
    settings: Settings,
    client: AnyClient,
    *,
    deadline_s: float = DEADLINE_S,
    blobs: Blobs | None = None,
) -> Runtime:
    """Tables and bucket as the settings name them.

    client      `minimal_client`, which costs a cold start and a request little, or boto3's by `dynamodb_client`
    deadline_s  how long a request is repeated before it counts as unanswered
    blobs       where large bodies lie, when it is not the bucket of the settings
    """
    names = TableNames(settings.queue_table, settings.dead_letter_table)
    store = DynamoStore(client, names, calls=RetryingClient(client, deadline_s=deadline_s))
    return Runtime(store, blobs or S3Blobs(settings.body_bucket), history=history_log(on=settings.log_history))
