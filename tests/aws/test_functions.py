"""Calls of Lambda functions: what is busy, what is unreachable, and what the caller has to know."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from millrace.aws.functions import FunctionBusy, FunctionUnreachable, invoke, lambda_client


class Answers:
    """A client whose every invocation ends in one way."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    def invoke(self, **given: Any) -> Any:
        self.asked.append(given)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def refused(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}, "Invoke")  # type: ignore[typeddict-item]


def test_an_invocation_waits_for_its_answer() -> None:
    client = Answers({"StatusCode": 200})
    assert invoke(client, "resize", b"{}", "ctx") == {"StatusCode": 200}
    assert client.asked == [
        {"FunctionName": "resize", "InvocationType": "RequestResponse", "Payload": b"{}", "ClientContext": "ctx"}
    ]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (refused("TooManyRequestsException", 429), FunctionBusy),
        (refused("ServiceException", 500), FunctionUnreachable),
        (ConnectTimeoutError(endpoint_url="x"), FunctionUnreachable),
        (refused("ResourceNotFoundException", 404), ClientError),
    ],
)
def test_each_failure_is_named_for_what_it_means(answer: Exception, error: type[Exception]) -> None:
    with pytest.raises(error):
        invoke(Answers(answer), "resize", b"{}", "")


def test_the_client_never_invokes_twice_by_itself() -> None:
    client = lambda_client(7, endpoint_url="http://127.0.0.1:9", region="eu-west-1")
    config: Any = client.meta.config
    assert (config.retries["total_max_attempts"], config.read_timeout) == (1, 7)
