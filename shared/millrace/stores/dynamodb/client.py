"""The connection to DynamoDB: one client, no hidden retries; and what either kind of client raises."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from typing import TypeAlias

    from mypy_boto3_dynamodb import DynamoDBClient

    from millrace.stores.dynamodb.minimal_client import MinimalClient

    #: Either client serves the store: they share names, arguments and answers.
    AnyClient: TypeAlias = DynamoDBClient | MinimalClient


class TableNames(NamedTuple):
    queue: str
    dead_letters: str


def dynamodb_client(
    *, endpoint_url: str | None = None, region: str | None = None, keys: tuple[str, str] | None = None
) -> DynamoDBClient:
    """A client that sends each request once.

    Whether a request may be repeated depends on what it writes, so the store decides it, not the SDK: booking an
    ending twice would let the queue grow past its limit. `keys` are an access key and its secret, in place of those
    of the environment.
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
    key, secret = keys or (None, None)
    return boto3.client(
        "dynamodb",
        endpoint_url=endpoint_url,
        region_name=region,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=config,
    )


class EncodedStatement:
    """A statement of a batch as the JSON that is sent. Whoever looks into it finds what it spells."""

    __slots__ = ("text", "units")

    def __init__(self, text: str, units: int) -> None:
        self.text = text
        self.units = units  #: write units that it takes, as DynamoDB counts

    def __getitem__(self, name: str) -> Any:
        import json
        from base64 import b64decode

        found = json.loads(self.text)[name]
        if name != "Parameters":
            return found
        return [{"B": b64decode(value["B"])} if "B" in value else value for value in found]


class Declined(Exception):
    """DynamoDB answered with an error; `response` is shaped as botocore's ClientError shapes it."""

    def __init__(self, response: dict[str, Any]) -> None:
        self.response = response
        error = response.get("Error", {})
        super().__init__(f"{error.get('Code', '')}: {error.get('Message', '')}")


class NoAnswer(Exception):
    """The request was sent, perhaps, and nothing usable came back."""


class NeverSent(Exception):
    """No connection came about: the request surely did nothing."""


def declined() -> tuple[type[Any], ...]:
    """What either client raises for an answer that is an error. botocore can only have raised it once imported."""
    botocore = sys.modules.get("botocore.exceptions")
    return (Declined, botocore.ClientError) if botocore else (Declined,)


def never_sent() -> tuple[type[Exception], ...]:
    """What either client raises where the request was not sent."""
    botocore = sys.modules.get("botocore.exceptions")
    return (NeverSent, botocore.EndpointConnectionError, botocore.ConnectTimeoutError) if botocore else (NeverSent,)


def unanswered() -> tuple[type[Exception], ...]:
    """What either client raises where no answer came."""
    botocore = sys.modules.get("botocore.exceptions")
    return (NoAnswer, botocore.ConnectionError, botocore.HTTPClientError) if botocore else (NoAnswer,)


def not_set_up() -> tuple[type[Exception], ...]:
    """What is raised before anything is sent: no region, no credentials, an unknown profile."""
    botocore = sys.modules.get("botocore.exceptions")
    return (botocore.BotoCoreError,) if botocore else ()
