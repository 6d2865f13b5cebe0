"""How log lines name a delivery, and hooks that do nothing unless given."""

from __future__ import annotations

from millrace.client import Client, Hooks
from millrace.client.hooks import log_fields, named


def test_a_delivery_is_named_by_message_queue_and_attempt(client: Client) -> None:
    receipt = client.enqueue("Jobs", 1, correlation_id="trace")
    (job,) = client.dequeue("Jobs")
    assert named(job) == f"message {receipt.message_id} of Jobs, attempt 1"
    fields = {"queue": "Jobs", "message_id": receipt.message_id, "attempt": 1, "correlation_id": "trace"}
    assert log_fields(job) == fields


def test_a_hook_that_is_not_given_does_nothing() -> None:
    hooks = Hooks()
    hooks.started()
    hooks.fetch_failed("Jobs", OSError(), 1.0)
