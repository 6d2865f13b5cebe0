"""What `import millrace` promises: these names, and that it costs nothing until one of them is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import millrace

SHARED = Path(__file__).parents[1] / "shared"
HANDLERS = {"AsyncContext", "Batch", "BatchItem", "Context", "Reject", "Retry", "Snooze", "Unavailable", "command"}
CLIENTS = {"AsyncClient", "AsyncConsumer", "AsyncDelivery", "Client", "Consumer", "Delivery"}
NOUNS = {
    "Claim", "Draft", "Idempotency", "MemoryBlobs", "MemoryStore", "MessageStatus", "Ordering", "Queue", "QueueSpec",
    "Receipt", "Retention", "RetryPolicy", "RunFailure", "Runtime", "Transaction",
}  # fmt: skip
#: Brings the SDK with it: a transaction is DynamoDB's own.
ON_AWS = {"Transactions"}
VERBS = {"ack", "body_of", "claim", "enqueue", "enqueue_all", "extend", "nack", "reject", "release", "snooze", "status"}
ERRORS = {
    "DuplicateMessage", "InvalidRequest", "InvalidTransaction", "MillraceError", "NotFound", "QueueFull", "StaleClaim",
    "StaleState", "StoreUnavailable", "TransactionRefused",
}  # fmt: skip
HEAVY = ("boto3", "botocore", "chalice", "httpx", "lark", "pyarrow", "pynamodb", "pyspark")


def imported_by(code: str) -> set[str]:
    """The modules of a fresh process that ran this."""
    script = f"import sys; sys.path.insert(0, {str(SHARED)!r}); {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_public_names_are_these() -> None:
    assert set(millrace.__all__) == HANDLERS | CLIENTS | NOUNS | ON_AWS | VERBS | ERRORS
    assert millrace.__all__ == sorted(millrace.__all__)
    assert dir(millrace) == millrace.__all__


@pytest.mark.parametrize("name", millrace.__all__)
def test_a_public_name_is_the_one_of_its_module(name: str) -> None:
    found = getattr(millrace, name)
    assert found.__module__ == f"millrace.{millrace._HOME[name]}"
    assert found.__name__ == name


def test_an_editor_and_a_type_checker_see_the_same_names() -> None:
    """What is imported for types alone is what is imported when it is used."""
    tree = ast.parse(Path(millrace.__file__).read_text("utf-8"))
    typed = {
        alias.name: str(node.module).removeprefix("millrace.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("millrace.")
        for alias in node.names
    }
    assert typed == millrace._HOME


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="enqueu"):
        getattr(millrace, "enqueu")  # noqa: B009


def test_importing_millrace_imports_none_of_its_modules() -> None:
    assert [name for name in imported_by("import millrace") if name.startswith("millrace.")] == []


@pytest.mark.parametrize("names", [HANDLERS, NOUNS | VERBS | ERRORS], ids=["handlers", "embedding"])
def test_handlers_and_embedders_pay_for_no_sdk(names: set[str]) -> None:
    found = imported_by(f"from millrace import {', '.join(sorted(names))}")
    assert found.isdisjoint(HEAVY)


def test_a_message_goes_through_with_public_names_alone() -> None:
    runtime = millrace.Runtime(millrace.MemoryStore(), millrace.MemoryBlobs())
    queue = runtime.queue("demo", millrace.QueueSpec("Jobs"))
    receipt = millrace.enqueue(queue, millrace.Draft(b"{}"))
    (held,) = millrace.claim(queue, owner="me").claims
    assert millrace.body_of(queue, held) == b"{}"
    assert millrace.ack(queue, [held.entry]) == [None]
    assert millrace.status(queue, receipt.message_id).status is millrace.MessageStatus.DONE
