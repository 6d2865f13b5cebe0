"""Problems of webhooks in the queue table: pk `WEBHOOKS`, sk the webhook's name. Gone an hour after the last one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.model.webhook_problems import WebhookProblem
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.conditions import value_of
from millrace.stores.dynamodb.items import Item, int_in, text_in
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.writes import delete, put

PARTITION = "WEBHOOKS"


class WebhookProblems:
    """Why webhooks cannot verify."""

    _calls: RetryingClient
    _names: TableNames

    def put_webhook_problem(self, problem: WebhookProblem) -> None:
        self._calls.send("put_item", **put(self._names.queue, problem_item(problem)).request())

    def delete_webhook_problem(self, webhook: str) -> None:
        self._calls.send("delete_item", **delete(self._names.queue, _key(webhook)).request())

    def read_webhook_problems(self) -> list[WebhookProblem]:
        return [problem_of(item) for item in self._calls.query_all(self._names.queue, PARTITION)]


def _key(webhook: str) -> Item:
    return {"pk": {"S": PARTITION}, "sk": {"S": webhook}}


def problem_item(problem: WebhookProblem) -> Item:
    return {
        **_key(problem.webhook),
        "problem": value_of(problem.problem),
        "since": value_of(problem.since),
        "last": value_of(problem.last),
        "ttl": value_of(problem.ttl),
    }


def problem_of(item: Mapping[str, Any]) -> WebhookProblem:
    return WebhookProblem(item["sk"]["S"], text_in(item, "problem"), int_in(item, "since"), int_in(item, "last"))
