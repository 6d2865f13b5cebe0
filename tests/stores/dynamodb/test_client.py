"""The connection: one request each, and one set of names for what either client raises."""

from __future__ import annotations

from typing import Any

import pytest
from botocore import exceptions
from botocore.awsrequest import AWSResponse

from infra.local.dynamodb import REGION
from millrace.stores.dynamodb.client import (
    Declined,
    NeverSent,
    NoAnswer,
    declined,
    dynamodb_client,
    never_sent,
    unanswered,
)


class _Body:
    """The body of a made-up answer."""

    def stream(self) -> list[bytes]:
        return [b'{"__type": "InternalServerError"}']


def test_client_sends_each_request_once() -> None:
    """Whether a write may be repeated is the store's to decide: a hidden retry could book an ending twice."""
    client = dynamodb_client(endpoint_url="http://127.0.0.1:1", region=REGION)
    sent = []

    def answer(request: Any, **_context: Any) -> Any:
        sent.append(request.url)
        headers: Any = {"content-type": "application/x-amz-json-1.0"}
        body: Any = _Body()
        return AWSResponse(request.url, 500, headers, body)

    client.meta.events.register("before-send.dynamodb.*", answer)
    with pytest.raises(Exception, match="InternalServerError"):
        client.get_item(TableName="any", Key={"pk": {"S": "p"}, "sk": {"S": "s"}})
    assert len(sent) == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Declined({"Error": {"Code": "X"}}), declined),
        (exceptions.ClientError({"Error": {"Code": "X"}}, "PutItem"), declined),
        (NeverSent(), never_sent),
        (exceptions.EndpointConnectionError(endpoint_url="u"), never_sent),
        (exceptions.ConnectTimeoutError(endpoint_url="u"), never_sent),
        (NoAnswer(), unanswered),
        (exceptions.ReadTimeoutError(endpoint_url="u"), unanswered),
        (exceptions.ConnectionClosedError(endpoint_url="u"), unanswered),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.__name__,
)
def test_both_clients_errors_have_one_meaning(error: Exception, kind: Any) -> None:
    """Asked in the order of the retrying client: what was never sent may be repeated, so it is asked for first."""
    assert next(asked for asked in (declined, never_sent, unanswered) if isinstance(error, asked())) is kind


def test_a_refusal_says_its_code_and_why() -> None:
    assert str(Declined({"Error": {"Code": "ValidationException", "Message": "no"}})) == "ValidationException: no"
