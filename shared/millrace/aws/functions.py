"""Calling Lambda functions: wait for the answer, or only hand an event over. boto3 is imported with the first call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from botocore.client import BaseClient

#: What Lambda answers where it has no room for another invocation.
THROTTLES = frozenset({"TooManyRequestsException", "EC2ThrottledException", "ThrottlingException"})

SendEvent = Callable[[Mapping[str, Any]], None]


class LambdaContext(Protocol):
    """What the functions use of the context that Lambda hands them."""

    def get_remaining_time_in_millis(self) -> int: ...


class FunctionBusy(Exception):
    """Lambda has no room for the function at the moment; it was not invoked."""


class FunctionUnreachable(Exception):
    """Lambda did not answer, or answered with an error of its own; whether the function ran is not known."""


class EventNotSent(Exception):
    """An event was not handed over to its function, or no answer came."""


def lambda_client(read_timeout_s: float, *, endpoint_url: str | None = None, region: str | None = None) -> BaseClient:
    """A client that invokes once and waits as long as a run may take."""
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"total_max_attempts": 1, "mode": "standard"},
        connect_timeout=3,
        read_timeout=read_timeout_s,
        max_pool_connections=50,
        tcp_keepalive=True,
    )
    client: BaseClient = boto3.client("lambda", endpoint_url=endpoint_url, region_name=region, config=config)
    return client


def invoke(client: Any, function: str, payload: bytes, client_context: str) -> Any:
    """Invoke a function and wait for Lambda's answer. Raises FunctionBusy, FunctionUnreachable or a ClientError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return client.invoke(
            FunctionName=function, InvocationType="RequestResponse", Payload=payload, ClientContext=client_context
        )
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in THROTTLES:
            raise FunctionBusy(f"Lambda has no room for {function}: {code}.") from error
        if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0) >= 500:
            raise FunctionUnreachable(f"Lambda answered {code} for {function}.") from error
        raise
    except BotoCoreError as error:
        raise FunctionUnreachable(f"Lambda gave no answer for {function}: {type(error).__name__}.") from error


def event_sender(function: str) -> SendEvent:
    """Hands events over to a function without waiting for what comes of them. A send raises EventNotSent."""

    @cache
    def client() -> Any:
        import boto3

        return boto3.client("lambda")

    def send(event: Mapping[str, Any]) -> None:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            client().invoke(FunctionName=function, InvocationType="Event", Payload=json.dumps(event).encode())
        except (BotoCoreError, ClientError) as error:
            raise EventNotSent(f"{function}: {error}") from error

    return send
