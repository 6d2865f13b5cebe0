"""A runtime on AWS, from settings: what the functions share."""

from __future__ import annotations

import boto3

from millrace.aws.blobs import S3Blobs
from millrace.aws.settings import Settings
from millrace.engine.queue import Runtime
from millrace.history.log import history_log
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore


def aws_runtime(settings: Settings) -> Runtime:
    """Store and blobs as the settings name them; the region, credentials and endpoints as the SDK finds them."""
    names = TableNames(settings.queue_table, settings.dead_letter_table)
    store, blobs = DynamoStore(dynamodb_client(), names), S3Blobs(boto3.client("s3"), settings.body_bucket)
    return Runtime(store, blobs, history=history_log(on=settings.log_history))
