"""A runtime on AWS: what the functions, the worker process and the Spark job share."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from millrace.aws.blobs import S3Blobs
from millrace.aws.kms import KmsKeys
from millrace.aws.uploads import S3Uploads
from millrace.definitions import load
from millrace.engine.queue import Runtime
from millrace.history.log import history_log
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.retrying_client import DEADLINE_S, RetryingClient
from millrace.stores.dynamodb.store import DynamoStore

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from millrace.aws.settings import Settings
    from millrace.definitions import Definitions
    from millrace.model.body import Blobs
    from millrace.model.encryption import KeyService
    from millrace.stores.dynamodb.client import AnyClient


def deployed_definitions(settings: Settings) -> Definitions:
    """The definitions of a function; logs an error for each queue that needs large bodies longer than they are kept."""
    definitions = load(settings.definitions)
    for queue, days in definitions.queues_that_outlive_bodies(settings.body_days).items():
        log.error(
            f"Large bodies of queue {queue!r} are gone after {settings.body_days} days and needed for {days}: "
            f"deploy with BodyDays={days} or more.",
            extra={"action": "bodies_expire_early", "queue": queue},
        )
    return definitions


def aws_runtime(
    settings: Settings,
    client: AnyClient,
    *,
    deadline_s: float = DEADLINE_S,
    blobs: Blobs | None = None,
    keys: KeyService | None = None,
) -> Runtime:
    """Tables and bucket as the settings name them.

    client      `minimal_client`, which costs a cold start and a request little, or boto3's by `dynamodb_client`
    deadline_s  how long a request is repeated before it counts as unanswered
    blobs       where large bodies lie, when it is not the bucket of the settings
    keys        the KMS of encrypted queues, when it is not that of the environment
    """
    names = TableNames(settings.queue_table, settings.dead_letter_table)
    store = DynamoStore(client, names, calls=RetryingClient(client, deadline_s=deadline_s))
    return Runtime(
        store,
        blobs or S3Blobs(settings.body_bucket),
        history=history_log(on=settings.log_history),
        uploads=S3Uploads(settings.body_bucket, signer=settings.url_signer),
        keys=keys or KmsKeys(),
    )
