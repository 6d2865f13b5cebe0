"""`webhooks`: where each is called, and a failure that says what to do where one cannot verify."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millrace.cli.connection import Exit
from millrace.model.clock import system_clock
from millrace.model.webhook_problems import WebhookProblem
from millrace.stores.dynamodb.store import DynamoStore
from tests.cli.terminal import Terminal


@pytest.fixture
def troubled(dynamo_store: DynamoStore) -> Iterator[str]:
    """The stack's webhook, while it cannot verify; all tests share it."""
    now = system_clock()
    dynamo_store.put_webhook_problem(WebhookProblem("Sales", "SALES_KEY is not set", now - 60_000, now))
    yield "Sales"
    dynamo_store.delete_webhook_problem("Sales")


def test_a_webhook_is_listed_with_its_address_and_secret(terminals: tuple[Terminal, Terminal], tenant: str) -> None:
    producer, _ = terminals
    (found,) = producer.json("webhooks")
    assert (found["name"], found["path"], found["problem"]) == ("Sales", f"/hook/{tenant}/Sales", None)
    assert b"SALES_KEY" in producer.run("webhooks").stdout


def test_one_that_cannot_verify_fails_the_command_and_says_why(
    terminals: tuple[Terminal, Terminal], troubled: str
) -> None:
    failed = terminals[0].run("webhooks", exit_code=Exit.FAILED)
    assert b"cannot verify" in failed.stdout
    assert f"{troubled} cannot verify: SALES_KEY is not set (since ".encode() in failed.stderr
