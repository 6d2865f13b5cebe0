"""Dequeue over HTTP: bodies, filters, the workflow state under a claim."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest

from millrace.engine.dead_letters import list_dead_letters
from millrace.history.log import HistoryLog
from millrace.history.reader import LogRecords
from millrace.model.errors import StoreUnavailable
from millrace.model.message import DeadLetterReason
from millrace.pull.service import PullService
from tests.conftest import Clock
from tests.pull.calling import Caller

JOBS = "/v1/queues/Jobs"
LAMBDA_BYTES = 6 * 1024 * 1024


def test_a_message_lives_its_whole_life(call: Caller) -> None:
    receipt = call.enqueue({"n": 1}, priority="high", labels=["a"], project="p", correlation_id="trace-1")
    assert receipt["status"] == "ready"
    (held,) = call.dequeue(owner="w1", lease_ms=5_000)
    assert (held["body"], held["attempt"], held["owner"], held["correlation_id"]) == ({"n": 1}, 1, "w1", "trace-1")
    assert call.dequeue() == []
    got = call("POST", f"{JOBS}/ack", {"claim": held["claim"], "result": {"ok": True}})
    assert got.status == 200
    assert got.json == {"message_id": receipt["message_id"], "correlation_id": "trace-1"}
    status = call("GET", f"{JOBS}/messages/{receipt['message_id']}").json
    assert (status["status"], status["result"]) == ("done", {"ok": True})


def test_a_pull_consumers_history_is_recorded_from_dequeue_to_ack(call: Caller, service: PullService) -> None:
    lines: list[str] = []
    service.runtime.history = HistoryLog(lines.append)
    call.enqueue()
    (held,) = call.dequeue(owner="w1")
    call("POST", f"{JOBS}/ack", {"claim": held["claim"]})
    events = [(record.event, record.owner, record.version) for record in LogRecords().read("lines", lines)]
    assert events == [("accepted", "", 0), ("started", "w1", 1), ("ending", "w1", 1), ("done", "w1", 1)]


def test_json_bytes_can_be_had_exactly(call: Caller) -> None:
    data = b'{ "n" : 1.10 , "big": 123456789012345678901234567890 }'
    call("POST", f"{JOBS}/messages/raw", content=data, headers={"content-type": "application/json"})
    (held,) = call.dequeue(bodies="base64")
    assert base64.b64decode(held["body_base64"]) == data


def test_a_filter_chooses(call: Caller) -> None:
    call.enqueue("a", project="x", labels=["red"])
    call.enqueue("b", project="y", labels=["red", "blue"])
    assert [m["body"] for m in call.dequeue(max=5, filter={"labels": ["red", "blue"]})] == ["b"]
    assert [m["body"] for m in call.dequeue(max=5, filter={"project": "x"})] == ["a"]


def test_state_is_read_and_written_only_under_a_live_claim(call: Caller, clock: Clock) -> None:
    call.enqueue()
    (held,) = call.dequeue(with_state=True, lease_ms=5_000)
    assert (held["state"], held["state_version"]) == (None, 0)
    put = {"claim": held["claim"], "state": {"step": 1}, "version": 0}
    assert call("PUT", f"{JOBS}/state", put).json == {"state": {"step": 1}, "state_version": 1}
    again = call("PUT", f"{JOBS}/state", {**put, "state": "other"})
    assert (again.status, again.json["code"], again.json["current_version"]) == (409, "stale_state", 1)
    read = call("GET", f"{JOBS}/state", headers={"X-Millrace-Claim": held["claim"]})
    assert read.json == {"state": {"step": 1}, "state_version": 1}
    clock.forward(6_000)
    for got in (
        call("GET", f"{JOBS}/state", headers={"x-millrace-claim": held["claim"]}),
        call("PUT", f"{JOBS}/state", {**put, "version": 1}),
    ):
        assert (got.status, got.json["code"]) == (409, "stale_claim")
    (taken_over,) = call.dequeue(with_state=True)
    assert (taken_over["state"], taken_over["state_version"]) == ({"step": 1}, 1)


def test_claims_are_given_back_when_the_answer_cannot_be_made(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    call.enqueue()

    def broken(*_: object) -> str:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(call.api.service.handles, "write", broken)
        assert call("POST", f"{JOBS}/dequeue", {}).status == 500
    (held,) = call.dequeue()
    assert held["attempt"] == 1


def lambda_bytes(call: Caller, asked: dict[str, Any]) -> tuple[int, list[Any]]:
    """How large the answer of a dequeue is as Lambda returns it (in its longer form), and its messages."""
    event = {
        "version": "2.0",
        "rawPath": f"{JOBS}/dequeue",
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"http": {"method": "POST"}, "authorizer": {"lambda": call.principal}},
        "body": json.dumps(asked),
        "isBase64Encoded": False,
    }
    result = call.api.handle(event)
    return len(json.dumps(result)), json.loads(result["body"])["messages"]


LARGE = {
    "numbers": b"[" + b"1e15," * 600_000 + b"1]",
    "backslashes": json.dumps({"log": "\\" * 1_500_000}).encode(),
    "chinese": json.dumps({"t": "漢" * 1_000_000}, ensure_ascii=False).encode(),
    "accents": json.dumps({"t": "é" * 1_500_000}, ensure_ascii=False).encode(),
    "json in json": json.dumps({"p": json.dumps([{"id": i, "name": 'a "b" c'} for i in range(60_000)])}).encode(),
    "bytes": bytes(range(256)) * 12_000,
}


@pytest.mark.parametrize("store", ["memory"], indirect=True)
@pytest.mark.parametrize("name", LARGE)
def test_an_answer_is_never_larger_than_lambda_returns(call: Caller, name: str) -> None:
    """Whatever JSON and its escapes make of a body: one that does not fit is left out, and can be downloaded."""
    data = LARGE[name]
    kind = "application/octet-stream" if name == "bytes" else "application/json"
    call("POST", f"{JOBS}/messages/raw", content=data, headers={"content-type": kind})
    size, (held,) = lambda_bytes(call, {})
    assert size <= LAMBDA_BYTES
    assert call("GET", f"{JOBS}/messages/{held['message_id']}/body").content == data
    if "body_base64" in held:  # bytes, and JSON of more values than are parsed
        assert base64.b64decode(held["body_base64"]) == data
    elif not held["body_omitted"]:
        assert held["body"] == json.loads(data)


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_what_fits_is_not_left_out(call: Caller) -> None:
    call("POST", f"{JOBS}/messages/raw", content=LARGE["bytes"], headers={"content-type": "image/png"})
    call.enqueue("small")
    _, held = lambda_bytes(call, {"max": 2})
    assert [one["body_omitted"] for one in held] == [False, False]


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_headers_count_and_later_bodies_are_left_out(call: Caller) -> None:
    headers = {f"h{number}": '"' * 150 for number in range(50)}
    for _ in range(100):
        call.enqueue("x" * 60_000, headers=headers)
    size, held = lambda_bytes(call, {"max": 100})
    assert size <= LAMBDA_BYTES
    assert len(held) == 100
    assert 0 < sum(one["body_omitted"] for one in held) < 100


@pytest.mark.parametrize("store", ["memory"], indirect=True)
def test_messages_whose_states_do_not_fit_are_released_uncharged(call: Caller) -> None:
    for number in range(100):
        call.enqueue(number)
    claims = [one["claim"] for one in call.dequeue(max=100)]
    for claim in claims:
        call("PUT", f"{JOBS}/state", {"claim": claim, "state": "x" * 65_000, "version": 0})
        call("POST", f"{JOBS}/release", {"claim": claim})
    size, held = lambda_bytes(call, {"max": 100, "with_state": True})
    assert size <= LAMBDA_BYTES
    assert 80 < len(held) < 100
    rest = call.dequeue(max=100)
    assert len(held) + len(rest) == 100
    assert {one["attempt"] for one in rest} == {1}


def test_a_lost_body_is_a_dead_letter_and_the_others_are_handed_out(call: Caller, service: PullService) -> None:
    call("POST", f"{JOBS}/messages/raw", content=random.Random(1).randbytes(100_000))
    for number in range(3):
        call.enqueue(number)
    service.runtime.blobs.objects.clear()  # type: ignore[attr-defined]
    assert sorted(held["body"] for held in call.dequeue(max=10)) == [0, 1, 2]
    (dead_letter,) = list_dead_letters(service.queue(call.tenant, "Jobs")).items
    assert (dead_letter.reason, dead_letter.error_type) == (DeadLetterReason.BODY_LOST, "BodyLost")
    path = f"{JOBS}/messages/{dead_letter.message.id}"
    assert call("GET", path).json["status"] == "dead"
    got = call("GET", f"{path}/body")
    assert (got.status, got.json["code"]) == (410, "body_lost")


def test_while_s3_is_silent_only_what_lies_there_waits_and_nothing_is_charged(
    call: Caller, service: PullService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("POST", f"{JOBS}/messages/raw", content=random.Random(1).randbytes(100_000))
    call.enqueue(1)

    def silent(_key: str) -> bytes:
        raise StoreUnavailable("SlowDown")

    with monkeypatch.context() as patch:
        patch.setattr(service.runtime.blobs, "get", silent)
        assert [held["body"] for held in call.dequeue(max=10)] == [1]
        clock.forward(5_000)
        assert call("POST", f"{JOBS}/dequeue", {}).status == 503, "there is nothing else to show"
    clock.forward(10_000)
    (held,) = call.dequeue()
    assert held["attempt"] == 1
