"""The `lambda` target: invoke a function and wait for its answer."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

from millrace.aws.functions import FunctionBusy, FunctionUnreachable, invoke
from millrace.handlers.controls import Reject, Unavailable
from millrace.model.trace_context import onward_trace
from millrace.worker.context import RunContext
from millrace.worker.targets.request import TargetFailed, TargetRequest, Throttled

#: What Lambda takes for a synchronous invocation.
PAYLOAD_BYTES = 6 * 1024 * 1024
#: Of an answer this much is read.
ANSWER_BYTES = 64 * 1024


class FunctionFailed(TargetFailed):
    """The function raised, or was ended by Lambda."""


class LambdaDelivery:
    """Invokes with the rendered input as the event.

    The fencing token, attempt and ids come with the invocation as `client_context.custom`. The client must not
    repeat an invocation by itself: `millrace.aws.functions.lambda_client` makes one that does not.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def __call__(self, context: RunContext, request: TargetRequest) -> Any:
        payload = json.dumps(request.given, separators=(",", ":"), ensure_ascii=False).encode()
        if len(payload) > PAYLOAD_BYTES:
            raise Reject(f"The input is {len(payload)} bytes; Lambda takes {PAYLOAD_BYTES}.")
        try:
            answer = invoke(self._client, request.destination, payload, _client_context(context))
        except FunctionBusy as busy:
            raise Throttled(None, str(busy)) from busy
        except FunctionUnreachable as error:
            raise Unavailable(reason=str(error)) from error
        data = answer["Payload"].read(ANSWER_BYTES + 1)
        if answer.get("FunctionError"):
            raise FunctionFailed(_error_text(data, answer["FunctionError"]))
        return data if len(data) <= ANSWER_BYTES else None


def _client_context(context: RunContext) -> str:
    custom = {
        "message_id": context.message_id,
        "queue": context.queue.spec.name,
        "claim_version": context.version,
        "attempt": context.attempt,
        "correlation_id": context.correlation_id,
        **onward_trace(context.message.headers),
    }
    return b64encode(json.dumps({"custom": custom}).encode()).decode()


def _error_text(data: bytes, kind: str) -> str:
    """What the function says of its failure, as far as it can be read."""
    try:
        found = json.loads(data)
        return f"{found.get('errorType', kind)}: {found.get('errorMessage', '')}"
    except (ValueError, AttributeError):
        return kind
