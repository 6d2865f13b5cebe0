"""What a handler elsewhere is given: the input with the claim, or downloaded where it is large; and later."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.queue import Runtime
from millrace.http.routes import Api
from millrace.openapi import V1_ROUTES
from millrace.pull.service import PullService
from millrace.stores.memory.admin import MemoryTokens
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.conftest import Clock
from tests.pull.calling import Caller
from tests.worker.definitions import compiled

QUEUES = """
queue Notes {
  message_type { text: string  more?: json }
  delivery { max_attempts: 2  initial_backoff_ms: 1000  backoff: none }
  execution_timeout_seconds: 45
  map_to: command Note.Keep { kept: text + "!"  more: more.n }
}
queue Bytes { drained_by: api  fed_by: api }
"""
NOTES = "/v1/queues/Notes"


@pytest.fixture
def service(clock: Clock) -> PullService:
    return PullService(Runtime(MemoryStore(), MemoryBlobs(), clock=clock), compiled(QUEUES), MemoryTokens())


@pytest.fixture
def call(service: PullService, tenant: str) -> Caller:
    return Caller(Api(service, V1_ROUTES), tenant)


def test_the_input_comes_in_place_of_the_body(call: Caller) -> None:
    call.enqueue({"text": "a", "more": {"n": 1}}, "Notes")
    (held,) = call.dequeue("Notes", with_input=True)
    assert (held["input"], held["input_omitted"], held["body_omitted"]) == ({"kept": "a!", "more": 1}, False, True)
    assert held["execution_timeout_ms"] == 45_000


def test_without_a_type_the_body_is_all_there_is(call: Caller) -> None:
    call.enqueue({"text": "a"}, "Bytes")
    (held,) = call.dequeue("Bytes", with_input=True)
    assert (held["body"], "input" in held) == ({"text": "a"}, False)


def test_a_message_without_a_value_for_the_mapping_is_a_dead_letter_and_not_handed_out(
    call: Caller, service: PullService
) -> None:
    call.enqueue({"text": "bad"}, "Notes")
    call.enqueue({"text": "good", "more": {"n": 2}}, "Notes")
    assert [held["input"]["kept"] for held in call.dequeue("Notes", max=5, with_input=True)] == ["good!"]
    (dead,) = list_dead_letters(service.queue(call.tenant, "Notes")).items
    assert (dead.reason.value, dead.error_type) == ("rejected", "Reject")


def test_an_input_too_large_for_an_answer_is_downloaded_under_its_claim(call: Caller, clock: Clock) -> None:
    text = "\u00e4" * 1_200_000  # six characters each, as Lambda encodes an answer
    body = json.dumps({"text": text, "more": {"n": 1}}, ensure_ascii=False).encode()
    call("POST", f"{NOTES}/messages/raw", content=body, headers={"content-type": "application/json"})
    (held,) = call.dequeue("Notes", with_input=True)
    assert (held["input_omitted"], "input" in held) == (True, False)
    headers = {"x-millrace-claim": held["claim"]}
    first = call("GET", f"{NOTES}/input", headers={**headers, "range": "bytes=0-9"})
    assert (first.status, first.content) == (206, b'{"kept":"\xc3')
    whole = call("GET", f"{NOTES}/input", headers=headers)
    assert json.loads(whole.content) == {"kept": f"{text}!", "more": 1}
    clock.forward(31_000)
    call.dequeue("Notes")
    assert call("GET", f"{NOTES}/input", headers=headers).json["code"] == "stale_claim"


def test_an_input_that_cannot_be_made_is_refused(call: Caller) -> None:
    call.enqueue({"text": "bad"}, "Notes")
    (held,) = call.dequeue("Notes")
    got = call("GET", f"{NOTES}/input", headers={"x-millrace-claim": held["claim"]})
    assert (got.status, "no value" in got.json["detail"]) == (400, True)


def test_a_snoozed_message_comes_back_later_without_a_charge(call: Caller, clock: Clock) -> None:
    call.enqueue({"text": "a", "more": {"n": 1}}, "Notes")
    for _ in range(4):  # more often than it has attempts
        (held,) = call.dequeue("Notes")
        assert held["attempt"] == 1
        got: Any = call("POST", f"{NOTES}/snooze", {"claim": held["claim"], "delay_ms": 60_000})
        assert got.status == 200
        assert call.dequeue("Notes") == []
        assert call("POST", f"{NOTES}/snooze", {"claim": held["claim"]}).json["code"] == "stale_claim"
        clock.forward(60_000)
    assert call("POST", f"{NOTES}/snooze/batch", {"items": [{"claim": held["claim"]}]}).json["items"][0]["problem"]


def test_the_input_of_a_queue_without_a_type_is_the_body(call: Caller) -> None:
    call("POST", "/v1/queues/Bytes/messages/raw", content=b"\x00\x01", headers={"content-type": "image/png"})
    (held,) = call.dequeue("Bytes", with_input=True)
    got = call("GET", "/v1/queues/Bytes/input", headers={"x-millrace-claim": held["claim"]})
    assert (got.content, got.headers["Content-Type"]) == (b"\x00\x01", "image/png")
