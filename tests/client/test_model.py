"""Values of the client: what goes to the API, and what is read from its answers."""

from __future__ import annotations

from datetime import UTC, datetime

from millrace.client import EnqueueReceipt, NewMessage
from millrace.client.model import bytes_of


def test_only_what_was_given_is_sent() -> None:
    assert NewMessage(1).options() == {}
    message = NewMessage(1, key="k", labels=("a",), not_before=datetime(2027, 1, 1, tzinfo=UTC), headers={"x": "y"})
    assert message.options() == {
        "key": "k",
        "labels": ["a"],
        "not_before": "2027-01-01T00:00:00+00:00",
        "headers": {"x": "y"},
    }


def test_bytes_are_read_from_json_or_base64() -> None:
    assert bytes_of({"body": {"n": 1}}, "body") == b'{"n": 1}'
    assert bytes_of({"body_base64": "AP8="}, "body") == b"\x00\xff"
    assert bytes_of({}, "body") is None


def test_a_receipt_of_a_repeat_has_the_result() -> None:
    answer = {"message_id": "m", "correlation_id": "c", "idempotency_key": "i", "duplicate": True, "status": "done"}
    assert EnqueueReceipt.of({**answer, "result": 7}).result == b"7"
    assert EnqueueReceipt.of(answer).result is None
