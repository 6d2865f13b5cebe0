"""The `lambda` target: invoke a function and wait for its answer."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from millrace.worker.context import Context
from millrace.worker.controls import Reject
from millrace.worker.targets.request import TargetFailed, TargetRequest, Throttled

if TYPE_CHECKING:
    from botocore.client import BaseClient

#: What Lambda takes for a synchronous invocation.
PAYLOAD_BYTES = 6 * 1024 * 1024
#: Of an answer this much is read.
ANSWER_BYTES = 64 * 1024
THROTTLES = frozenset({"TooManyRequestsException", "EC2ThrottledException", "ThrottlingException"})


class FunctionFailed(TargetFailed):
    """The function raised, or was ended by Lambda."""


class LambdaDelivery:
    """Invokes with the rendered input as the event.

    The fencing token, attempt and ids come with the invocation as `client_context.custom`. The client must not
    repeat an invocation by itself: `lambda_client` makes one that does not.
    """

    def __init__(self, client: BaseClient) -> None:
        self._client: Any = client

    def __call__(self, context: Context, request: TargetRequest) -> Any:
        payload = json.dumps(request.given, separators=(",", ":"), ensure_ascii=False).encode()
        if len(payload) > PAYLOAD_BYTES:
            raise Reject(f"The input is {len(payload)} bytes; Lambda takes {PAYLOAD_BYTES}.")
        try:
            answer = self._client.invoke(
                FunctionName=request.destination,
                InvocationType="RequestResponse",
                Payload=payload,
                ClientContext=_client_context(context),
            )
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in THROTTLES:
                raise Throttled(None, f"Lambda has no room for {request.destination}: {code}.") from error
            raise
        data = answer["Payload"].read(ANSWER_BYTES + 1)
        if answer.get("FunctionError"):
            raise FunctionFailed(_error_text(data, answer["FunctionError"]))
        return data if len(data) <= ANSWER_BYTES else None


def _client_context(context: Context) -> str:
    custom = {
        "message_id": context.message_id,
        "queue": context.queue.spec.name,
        "claim_version": context.version,
        "attempt": context.attempt,
        "correlation_id": context.correlation_id,
    }
    return b64encode(json.dumps({"custom": custom}).encode()).decode()


def _error_text(data: bytes, kind: str) -> str:
    """What the function says of its failure, as far as it can be read."""
    try:
        found = json.loads(data)
        return f"{found.get('errorType', kind)}: {found.get('errorMessage', '')}"
    except (ValueError, AttributeError):
        return kind


def lambda_client(read_timeout_s: float, endpoint_url: str | None = None, region: str | None = None) -> BaseClient:
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
