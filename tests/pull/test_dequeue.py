"""Dequeue over HTTP: bodies, filters, the workflow state under a claim."""

from __future__ import annotations

import base64

import pytest

from millrace.history.log import HistoryLog
from millrace.history.reader import LogRecords
from millrace.pull.service import PullService
from tests.conftest import Clock
from tests.pull.calling import Caller

JOBS = "/v1/queues/Jobs"


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
