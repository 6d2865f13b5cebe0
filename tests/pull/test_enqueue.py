"""Enqueue over HTTP: one message, many, raw bytes; keys, delays, limits and types."""

from __future__ import annotations

import base64
import random

import pytest

from millrace.definitions import load
from millrace.definitions.language.compiler import compile_files
from tests.conftest import Clock
from tests.pull.calling import Caller

JOBS = "/v1/queues/Jobs"


def test_an_idempotency_key_gives_the_first_message_and_its_result(call: Caller) -> None:
    first = call.enqueue("x", idempotency_key="once")
    again = call("POST", f"{JOBS}/messages", {"body": "x"}, headers={"Idempotency-Key": "once"})
    assert (again.status, again.json["duplicate"], again.json["message_id"]) == (202, True, first["message_id"])
    (held,) = call.dequeue()
    call("POST", f"{JOBS}/ack", {"claim": held["claim"], "result": {"made": 7}})
    done = call("POST", f"{JOBS}/messages", {"body": "x", "idempotency_key": "once"})
    assert (done.status, done.json["result"]) == (200, {"made": 7})


@pytest.mark.parametrize("size", [1, 2_000, 200_000], ids=["plain", "packed", "blob"])
def test_a_key_with_another_body_is_no_repeat(call: Caller, size: int) -> None:
    """Named in the message or by the request's header; told by the first message's id, and nothing is queued."""
    noise = random.Random(7).randbytes(size)
    first = base64.b64encode(noise).decode()
    other = base64.b64encode(noise[::-1] + b"!").decode()
    sent = call("POST", f"{JOBS}/messages", {"body_base64": first, "idempotency_key": "k"}).json["message_id"]
    tried = [
        call("POST", f"{JOBS}/messages", {"body_base64": other, "idempotency_key": "k"}),
        call("POST", f"{JOBS}/messages", {"body_base64": other}, headers={"Idempotency-Key": "k"}),
        call("POST", f"{JOBS}/messages/raw", content=b"other", query="idempotency_key=k"),
    ]
    for got in tried:
        assert (got.status, got.json["code"], got.json["message_id"]) == (409, "idempotency_conflict", sent)
    again = call("POST", f"{JOBS}/messages", {"body_base64": first, "idempotency_key": "k"})
    assert (again.status, again.json["duplicate"]) == (202, True)
    (held,) = call.dequeue(max=10)
    call("POST", f"{JOBS}/ack", {"claim": held["claim"]})
    assert call("POST", f"{JOBS}/messages", {"body_base64": other, "idempotency_key": "k"}).status == 409


def test_a_batch_tells_a_reused_key_from_a_repeat(call: Caller) -> None:
    call.enqueue("old", idempotency_key="old")
    keyed = [("a", 1), ("a", 1), ("a", 2), ("old", "old"), ("old", "new")]
    asked = {"messages": [{"body": body, "idempotency_key": key} for key, body in keyed]}
    items = call("POST", f"{JOBS}/messages/batch", asked).json["items"]
    assert [item["http_status"] for item in items] == [202, 202, 409, 202, 409]
    assert items[2]["problem"]["message_id"] == items[0]["message_id"]
    assert len(call.dequeue(max=10)) == 2


def test_a_repeated_batch_request_makes_no_second_batch(call: Caller) -> None:
    asked = {"messages": [{"body": 1}, {"body": 2, "idempotency_key": "own"}]}
    first, again = (
        call("POST", f"{JOBS}/messages/batch", asked, headers={"Idempotency-Key": "r"}).json["items"] for _ in range(2)
    )
    assert [line["message_id"] for line in first] == [line["message_id"] for line in again]
    assert len(call.dequeue(max=10)) == 2


def test_raw_bytes_come_back_exactly(call: Caller) -> None:
    data = bytes(range(256)) * 10
    got = call(
        "POST",
        f"{JOBS}/messages/raw",
        content=data,
        headers={"content-type": "image/x-thing", "idempotency-key": "raw-1"},
        query="labels=a,b&priority=7",
    )
    assert got.status == 202
    (held,) = call.dequeue()
    assert base64.b64decode(held["body_base64"]) == data
    assert (held["content_type"], held["labels"], held["priority"]) == ("image/x-thing", ["a", "b"], 7)
    body = call("GET", f"{JOBS}/messages/{held['message_id']}/body")
    assert (body.content, body.headers["Content-Type"]) == (data, "image/x-thing")


def test_a_delayed_message_waits(call: Caller, clock: Clock) -> None:
    assert call.enqueue(delay_ms=5_000)["status"] == "scheduled"
    assert call.dequeue() == []
    clock.forward(5_000)
    assert len(call.dequeue()) == 1


def test_full_and_too_large_say_so(call: Caller) -> None:
    for _ in range(2):
        call.enqueue(queue="Small")
    full = call("POST", "/v1/queues/Small/messages", {"body": 1})
    assert (full.status, full.json["code"], full.headers["Retry-After"]) == (503, "queue_full", "5")
    large = call("POST", "/v1/queues/Small/messages", {"body": "x" * 200})
    assert (large.status, large.json["code"]) == (413, "body_too_large")


APP = b"""
app Test {
  queue Alerts {
    message_type { payload: json  headers: map<string, string>  source_ip: string  received_at: time }
    idempotency { key: payload.incident.id  window_seconds: 86400 }
    map_to: command Incident.Create { title: payload.incident.title }
  }
}
"""


TYPED = {"incident": {"id": "P1", "title": "Disk full", "urgency": "high"}}


def _typed(payload: object) -> dict[str, object]:
    return {"payload": payload, "headers": {}, "source_ip": "192.0.2.1", "received_at": "2026-01-31T09:00:00Z"}


def test_a_queue_with_targets_takes_what_its_type_describes(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_files([("test.millrace", APP)])
    assert compiled.errors == []
    monkeypatch.setattr(call.api.service, "definitions", load(compiled.text.encode()))
    path = "/v1/queues/Alerts/messages"
    for body in ({"n": 1}, "text", {**_typed(TYPED), "source_ip": 7}):
        got = call("POST", path, {"body": body})
        assert (got.status, got.json["code"]) == (422, "invalid_message"), body
    assert call("POST", f"{path}/raw", content=b"\xff", headers={"content-type": "image/png"}).status == 422
    first = call("POST", path, {"body": _typed(TYPED)}, headers={"Idempotency-Key": "r1"})
    again = call("POST", path, {"body": _typed(TYPED)}, headers={"Idempotency-Key": "r2"})
    assert (first.status, again.json["duplicate"]) == (202, True), "the definition's key counts before the request's"
    assert again.json["idempotency_key"] == "P1"
    moved = {**_typed(TYPED), "source_ip": "192.0.2.2"}
    other = call("POST", path, {"body": moved}, headers={"Idempotency-Key": "r3"})
    assert (other.status, other.json["duplicate"]) == (202, True), "its key is read from the body: the same event"
    lines = call("POST", f"{path}/batch", {"messages": [{"body": _typed(TYPED)}, {"body": 1}]}).json["items"]
    assert [line["http_status"] for line in lines] == [202, 422]
