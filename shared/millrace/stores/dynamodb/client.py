"""The connection to DynamoDB: one client, no hidden retries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    from mypy_boto3_dynamodb import DynamoDBClient

    from millrace.stores.dynamodb.minimal_client import MinimalClient

    #: Either client serves the store: they share names, arguments and answers.
    AnyClient: TypeAlias = DynamoDBClient | MinimalClient


class TableNames(NamedTuple):
    queue: str
    dead_letters: str


def dynamodb_client(*, endpoint_url: str | None = None, region: str | None = None) -> DynamoDBClient:
    """A client that sends each request once.

    Whether a request may be repeated depends on what it writes, so the store decides it, not the SDK: booking an
    ending twice would let the queue grow past its limit.
    """
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=2,
        read_timeout=6,
        max_pool_connections=32,
        tcp_keepalive=True,
        parameter_validation=False,
    )
    return boto3.client("dynamodb", endpoint_url=endpoint_url, region_name=region, config=config)
