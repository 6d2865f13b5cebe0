"""How a webhook's problem lies in the table: one item each, gone by itself."""

from __future__ import annotations

from millrace.model.webhook_problems import WebhookProblem
from millrace.stores.dynamodb.webhook_problems import problem_item, problem_of


def test_an_item_holds_the_problem_and_when_to_forget_it() -> None:
    problem = WebhookProblem("Sales", "KEY is not set", 1_800_000_000_000, 1_800_000_060_000)
    item = problem_item(problem)
    assert (item["pk"], item["sk"]) == ({"S": "WEBHOOKS"}, {"S": "Sales"})
    assert item["ttl"] == {"N": "1800003660"}
    assert problem_of(item) == problem
