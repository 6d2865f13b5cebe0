"""Roles allow what the code does and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from infra.local.dynamodb import ROOT
from infra.local.template import Reference, Template

TEMPLATE = Template.read()
ROLES = ("Ingress", "Worker", "Consumer", "Admin", "Authoriser")
STORE = ROOT / "shared" / "millrace" / "stores" / "dynamodb"
#: An operation of the store → the actions that IAM checks for it.
ACTIONS = {
    "batch_get_item": {"BatchGetItem"},
    "get_item": {"GetItem"},
    "put_item": {"PutItem"},
    "update_item": {"UpdateItem"},
    "delete_item": {"DeleteItem"},
    "query": {"Query"},
    "batch_execute_statement": {"PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"},
    "transact_write_items": {"PutItem", "DeleteItem", "ConditionCheckItem"},
}
ADAPTER_ONLY = {"lean.py", "calls.py", "client.py", "signing.py"}
OPERATION = re.compile(rf"\"({'|'.join(ACTIONS)})\"")
#: The only actions that AWS cannot narrow down to a resource.
UNNARROWED = {"dynamodb:ListStreams", "xray:PutTraceSegments", "xray:PutTelemetryRecords"}


def statements(role: str) -> Iterator[dict[str, Any]]:
    for policy in TEMPLATE.resources[f"{role}Role"]["Properties"]["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            yield statement.argument[1] if isinstance(statement, Reference) else statement


def allowed(role: str, table: str) -> set[str]:
    """Actions on a table that a role allows."""
    found: set[str] = set()
    for statement in statements(role):
        if statement["Effect"] == "Allow" and statement["Resource"] == Reference("GetAtt", f"{table}.Arn"):
            actions = statement["Action"]
            found |= {actions} if isinstance(actions, str) else set(actions)
    return {action.removeprefix("dynamodb:") for action in found}


def used(*files: str) -> set[str]:
    """Actions that these files of the store cause; batches are sent by `calls.py` on behalf of the others."""
    text = "\n".join((STORE / file).read_text("utf-8") for file in files)
    operations = set(OPERATION.findall(text))
    if ".batch(" in text:
        operations.add("batch_execute_statement")
    if ".read_all(" in text:
        operations.add("batch_get_item")
    return {action for operation in operations for action in ACTIONS[operation]}


def test_ingress_may_do_what_its_store_does() -> None:
    assert allowed("Ingress", "QueueTable") == used("intake.py")
    assert allowed("Ingress", "DeadLetterTable") == set()


@pytest.mark.parametrize("role", ["Worker", "Consumer", "Admin"])
def test_whole_store_may_do_what_it_does(role: str) -> None:
    files = [path.name for path in STORE.glob("*.py") if path.name not in ADAPTER_ONLY | {"intake.py", "tables.py"}]
    assert allowed(role, "QueueTable") == used(*files)
    assert allowed(role, "DeadLetterTable") == used("dead_letters.py") | {"PutItem"}


def test_authoriser_reads_tokens_and_nothing_else() -> None:
    (statement,) = (found for found in statements("Authoriser") if found["Sid"] == "Tokens")
    assert allowed("Authoriser", "QueueTable") == {"GetItem"}
    assert statement["Condition"] == {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": ["TOKENS"]}}
    assert len(list(statements("Authoriser"))) == 2


@pytest.mark.parametrize("role", ["Ingress", "Worker"])
def test_tokens_are_out_of_reach_of_what_needs_none(role: str) -> None:
    (statement,) = (found for found in statements(role) if found["Sid"] == "NoTokens")
    assert statement["Effect"] == "Deny"
    assert statement["Condition"] == {"ForAnyValue:StringEquals": {"dynamodb:LeadingKeys": ["TOKENS"]}}


@pytest.mark.parametrize("role", ROLES)
def test_no_role_reaches_beyond_its_stack(role: str) -> None:
    for statement in statements(role):
        if statement["Effect"] == "Deny":
            continue
        actions = {statement["Action"]} if isinstance(statement["Action"], str) else set(statement["Action"])
        assert not any("*" in action for action in actions)
        if statement["Resource"] == "*":
            assert actions <= UNNARROWED


@pytest.mark.parametrize("role", ROLES)
def test_every_function_has_its_own_role_and_no_managed_policy(role: str) -> None:
    assert TEMPLATE.resources[f"{role}Function"]["Properties"]["Role"] == Reference("GetAtt", f"{role}Role.Arn")
    assert "ManagedPolicyArns" not in TEMPLATE.resources[f"{role}Role"]["Properties"]
    assert "Policies" not in TEMPLATE.resources[f"{role}Function"]["Properties"]
