"""`webhooks`: where each is called, and a failure that says what to do where one cannot verify."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.cli.connection import Exit
from millrace.model.clock import system_clock
from millrace.model.queue_spec import DEFAULT_TENANT
from millrace.model.tokens import Scope
from millrace.model.webhook_problems import WebhookProblem
from millrace.stores.dynamodb.store import DynamoStore
from tests.cli.terminal import Terminal
from tests.pull.stack import Stack


@pytest.fixture
def troubled(dynamo_store: DynamoStore) -> Iterator[str]:
    """The stack's webhook, while it cannot verify; all tests share it."""
    now = system_clock()
    dynamo_store.put_webhook_problem(WebhookProblem("Sales", "SALES_KEY is not set", now - 60_000, now))
    yield "Sales"
    dynamo_store.delete_webhook_problem("Sales")


@pytest.fixture
def operator(stack: Stack, tmp_path: Path) -> Terminal:
    return Terminal(stack, stack.token(DEFAULT_TENANT, Scope.READ), tmp_path)


def test_a_webhook_is_listed_with_its_address_and_secret(operator: Terminal) -> None:
    (found,) = operator.json("webhooks")
    assert (found["name"], found["path"], found["problem"]) == ("Sales", "/hook/Sales", None)
    assert b"SALES_KEY" in operator.run("webhooks").stdout


def test_one_that_cannot_verify_fails_the_command_and_says_why(operator: Terminal, troubled: str) -> None:
    failed = operator.run("webhooks", exit_code=Exit.FAILED)
    assert b"cannot verify" in failed.stdout
    assert f"{troubled} cannot verify: SALES_KEY is not set (since ".encode() in failed.stderr
