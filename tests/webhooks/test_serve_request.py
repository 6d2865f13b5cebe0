"""What of an event is a request, and how large it may be."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.http.event_body import MAX_BINARY_BYTES, MAX_ENCODED_BYTES
from tests.webhooks.gate import Gate, signed, v2

BODY = b'{"id": "evt_1", "type": "t", "created": 1, "data": {"object": {"customer": "c"}}, "event": {"id": "e"}}'


@pytest.mark.parametrize("endpoint", ["GitHub", "Nobody"])
def test_size_is_looked_at_before_anything_else(gate: Gate, endpoint: str) -> None:
    event = v2(signed("GitHub", b"{}", gate.now(), path=f"/hook/{endpoint}"))
    event["body"], event["isBase64Encoded"] = "A" * (MAX_ENCODED_BYTES + 4), True
    assert gate.call(event).status == 413
    event["body"], event["isBase64Encoded"] = "A" * (MAX_ENCODED_BYTES + 1), False
    assert gate.call(event).status == 413


def test_size_counts_bytes_not_characters(gate: Gate) -> None:
    event = v2(signed("GitHub", b"{}", gate.now()))
    event["body"] = "ü" * (MAX_ENCODED_BYTES // 2 + 1)
    assert gate.call(event).status == 413


def test_a_refused_sender_is_told_the_limit(gate: Gate) -> None:
    answer = gate.call(
        v2(signed("GitHub", b"\xff" * (MAX_BINARY_BYTES + 1), gate.now(), headers={"Content-Type": "x/y"}))
    )
    assert (answer.status, answer.json["code"], answer.json["max_bytes"]) == (413, "body_too_large", MAX_ENCODED_BYTES)
    assert f"Allowed in a request: {MAX_BINARY_BYTES} bytes" in answer.json["detail"]


def test_base64_that_is_none_is_400(gate: Gate) -> None:
    event = v2(signed("GitHub", BODY, gate.now()))
    event["body"], event["isBase64Encoded"] = "not*base64", True
    assert (gate.call(event).status, gate.call(event).json["code"]) == (400, "invalid_request")


@pytest.mark.parametrize(
    "event", [None, [], "x", 7, {}, {"requestContext": None}, {"requestContext": {"http": {}}}, {"Records": []}]
)
def test_event_that_is_no_call_is_400(gate: Gate, event: Any) -> None:
    answer = gate.call(event)
    assert (answer.status, answer.json["code"]) == (400, "invalid_request")
