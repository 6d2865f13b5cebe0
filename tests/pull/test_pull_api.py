"""The pull API: enqueue, dequeue, finish, state, status. Each promise on each store."""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import Any

import pytest

from millrace.definitions import load
from millrace.definitions.language.compiler import compile_files
from millrace.history.log import HistoryLog
from millrace.history.reader import LogRecords
from millrace.pull.claim_handles import Handles
from millrace.pull.dequeue import BODY_BUDGET
from millrace.pull.finish import Finish, rounds
from millrace.pull.queues import MAX_PART
from millrace.pull.service import Service
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


def test_a_pull_consumers_history_is_told_from_dequeue_to_ack(call: Caller, service: Service) -> None:
    told: list[str] = []
    service.runtime.history = HistoryLog(told.append)
    call.enqueue()
    (held,) = call.dequeue(owner="w1")
    call("POST", f"{JOBS}/ack", {"claim": held["claim"]})
    events = [(record.event, record.owner, record.version) for record in LogRecords().read("told", told)]
    assert events == [("accepted", "", 0), ("started", "w1", 1), ("ending", "w1", 1), ("done", "w1", 1)]


def test_repeating_an_ack_that_succeeded_succeeds_again(call: Caller) -> None:
    call.enqueue()
    (held,) = call.dequeue()
    answers = [call("POST", f"{JOBS}/ack", {"claim": held["claim"]}) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 200]


@pytest.mark.parametrize("verb", ["ack", "nack", "release", "extend"])
def test_a_stale_claim_is_refused_with_the_current_version_and_changes_nothing(
    verb: str, call: Caller, clock: Clock, service: Service
) -> None:
    receipt = call.enqueue()
    (stale,) = call.dequeue(lease_ms=5_000)
    clock.forward(6_000)
    (newer,) = call.dequeue(lease_ms=5_000)
    before = call("GET", f"{JOBS}/messages/{receipt['message_id']}").json
    got = call("POST", f"{JOBS}/{verb}", {"claim": stale["claim"]})
    assert (got.status, got.json["code"], got.json["current_version"]) == (409, "stale_claim", newer["version"])
    assert call("GET", f"{JOBS}/messages/{receipt['message_id']}").json == before
    assert call("POST", f"{JOBS}/ack", {"claim": newer["claim"]}).status == 200


def test_a_stale_ack_after_the_message_is_done_is_refused(call: Caller, clock: Clock) -> None:
    call.enqueue()
    (stale,) = call.dequeue(lease_ms=5_000)
    clock.forward(6_000)
    (newer,) = call.dequeue()
    assert call("POST", f"{JOBS}/ack", {"claim": newer["claim"]}).status == 200
    got = call("POST", f"{JOBS}/ack", {"claim": stale["claim"]})
    assert (got.status, got.json["code"]) == (409, "stale_claim")


def test_nack_backs_off_and_ends_as_a_dead_letter(call: Caller, clock: Clock) -> None:
    receipt = call.enqueue()
    outcomes = []
    for _ in range(3):
        (held,) = call.dequeue()
        got = call("POST", f"{JOBS}/nack", {"claim": held["claim"], "error_type": "Boom", "error": "no"})
        outcomes.append(got.json["outcome"])
        assert call.dequeue() == []
        clock.forward(10_000)
    assert outcomes == ["retry", "retry", "dead"]
    status = call("GET", f"{JOBS}/messages/{receipt['message_id']}").json
    assert status["status"] == "dead"
    assert [attempt["error_type"] for attempt in status["history"]] == ["Boom"] * 3
    dead_letter = call("GET", f"{JOBS}/dead-letters/{status['dead_letter']}").json
    assert (dead_letter["reason"], dead_letter["body"], len(dead_letter["history"])) == ("exhausted", "work", 3)


def test_nack_delay_and_reject_are_the_callers(call: Caller, clock: Clock) -> None:
    call.enqueue()
    (held,) = call.dequeue()
    call("POST", f"{JOBS}/nack", {"claim": held["claim"], "delay_ms": 60_000})
    clock.forward(59_000)
    assert call.dequeue() == []
    clock.forward(1_000)
    (held,) = call.dequeue()
    assert held["attempt"] == 2
    got = call("POST", f"{JOBS}/nack", {"claim": held["claim"], "reject": True, "error": "never"})
    assert got.json["outcome"] == "dead"


def test_a_lost_worker_shows_in_the_history_of_a_later_nack(call: Caller, clock: Clock) -> None:
    receipt = call.enqueue()
    call.dequeue(owner="dies", lease_ms=1_000)
    clock.forward(2_000)
    (held,) = call.dequeue(owner="lives")
    call("POST", f"{JOBS}/nack", {"claim": held["claim"], "error_type": "Boom"})
    history = call("GET", f"{JOBS}/messages/{receipt['message_id']}").json["history"]
    assert [(attempt["owner"], attempt["error_type"]) for attempt in history] == [
        ("dies", "WorkerLost"),
        ("lives", "Boom"),
    ]


def test_release_charges_no_attempt_and_extend_moves_the_lease(call: Caller, clock: Clock) -> None:
    call.enqueue(key="k", project="p", labels=["x"])
    (held,) = call.dequeue(lease_ms=5_000)
    clock.forward(4_000)
    assert call("POST", f"{JOBS}/extend", {"claim": held["claim"], "lease_ms": 5_000}).status == 200
    clock.forward(4_000)
    assert call.dequeue() == []
    assert call("POST", f"{JOBS}/release", {"claim": held["claim"]}).status == 200
    (again,) = call.dequeue()
    assert (again["attempt"], again["deliveries"], again["version"]) == (1, 2, 2)
    assert (again["key"], again["project"], again["labels"]) == ("k", "p", ["x"])


def test_batches_answer_for_each_line(call: Caller) -> None:
    lines = [{"body": 1, "idempotency_key": "a"}, {"body": 2, "priority": 10**9}, {"nonsense": 1}, {"body": 4}]
    items = call("POST", f"{JOBS}/messages/batch", {"messages": lines}).json["items"]
    assert [item["http_status"] for item in items] == [202, 400, 400, 202]
    assert items[1]["problem"]["field"] == "messages[1].priority"
    one, two = call.dequeue(max=10)
    released = call("POST", f"{JOBS}/release", {"claim": two["claim"]})
    assert released.status == 200
    acks = [{"claim": one["claim"], "result": 1}, {"claim": two["claim"]}, {"claim": "c1.x.y"}, {"claim": one["claim"]}]
    items = call("POST", f"{JOBS}/ack/batch", {"items": acks}).json["items"]
    assert [item["http_status"] for item in items] == [200, 409, 400, 200]


def test_extending_a_batch_with_different_leases(call: Caller) -> None:
    call("POST", f"{JOBS}/messages/batch", {"messages": [{"body": n} for n in range(4)]})
    held = call.dequeue(max=4)
    asked = [{"claim": one["claim"], "lease_ms": 1_000 * (1 + n % 2)} for n, one in enumerate(held)]
    items = call("POST", f"{JOBS}/extend/batch", {"items": asked}).json["items"]
    untils = [item["lease_until"] for item in items]
    assert untils[0] == untils[2] < untils[1] == untils[3]


def test_an_idempotency_key_gives_the_first_message_and_its_result(call: Caller) -> None:
    first = call.enqueue("x", idempotency_key="once")
    again = call("POST", f"{JOBS}/messages", {"body": "y"}, headers={"Idempotency-Key": "once"})
    assert (again.status, again.json["duplicate"], again.json["message_id"]) == (202, True, first["message_id"])
    (held,) = call.dequeue()
    call("POST", f"{JOBS}/ack", {"claim": held["claim"], "result": {"made": 7}})
    done = call("POST", f"{JOBS}/messages", {"body": "z", "idempotency_key": "once"})
    assert (done.status, done.json["result"]) == (200, {"made": 7})


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


def test_json_bytes_can_be_had_exactly(call: Caller) -> None:
    data = b'{ "n" : 1.10 , "big": 123456789012345678901234567890 }'
    call("POST", f"{JOBS}/messages/raw", content=data, headers={"content-type": "application/json"})
    (held,) = call.dequeue(bodies="base64")
    assert base64.b64decode(held["body_base64"]) == data


def test_large_bodies_are_left_out_and_fetched_in_parts(call: Caller) -> None:
    data = b"x" * (MAX_PART + 1000)
    call("POST", f"{JOBS}/messages/raw", content=data, headers={"content-type": "text/plain"})
    (held,) = call.dequeue()
    assert held["body_omitted"]
    assert held["size"] == len(data) > BODY_BUDGET
    path = f"{JOBS}/messages/{held['message_id']}/body"
    first = call("GET", path)
    assert (first.status, first.headers["Content-Range"]) == (206, f"bytes 0-{MAX_PART - 1}/{len(data)}")
    second = call("GET", path, headers={"range": f"bytes={MAX_PART}-"})
    assert first.content + second.content == data
    assert call("GET", path, headers={"range": "bytes=99999999-"}).status == 400


def test_a_delayed_message_waits(call: Caller, clock: Clock) -> None:
    assert call.enqueue(delay_ms=5_000)["status"] == "scheduled"
    assert call.dequeue() == []
    clock.forward(5_000)
    assert len(call.dequeue()) == 1


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


def test_a_claim_is_good_for_its_own_tenant_and_queue_only(call: Caller, service: Service, tenant: str) -> None:
    call.enqueue()
    (held,) = call.dequeue()
    other = Caller(call.api, f"{tenant}x")
    assert other("POST", f"{JOBS}/ack", {"claim": held["claim"]}).status == 400
    assert call("POST", "/v1/queues/Wide/ack", {"claim": held["claim"]}).status == 400
    head, payload, seal = held["claim"].split(".")
    changed = payload[:-2] + ("AA" if payload[-2:] != "AA" else "BB")
    assert call("POST", f"{JOBS}/ack", {"claim": f"{head}.{changed}.{seal}"}).status == 400
    assert call("POST", f"{JOBS}/ack", {"claim": held["claim"]}).status == 200


def test_a_claim_cannot_be_made_up(call: Caller, service: Service, tenant: str) -> None:
    """A holder that swaps the message id in its own claim must not reach another message's records."""
    call.enqueue()
    queue = service.queue(tenant, "Jobs")
    (held,) = call.dequeue()
    entry = service.handles.read(queue, held["claim"]).entry
    message = service.runtime.store.get_messages([entry.id])[entry.id]
    from millrace.engine.claim import Claim

    forged = Handles(lambda: b"guessed").write(queue, Claim(replace(entry, id="victim"), message))
    assert call("POST", f"{JOBS}/ack", {"claim": forged}).status == 400
    assert call("GET", f"{JOBS}/state", headers={"X-Millrace-Claim": forged}).status == 400


def test_full_and_too_large_say_so(call: Caller) -> None:
    for _ in range(2):
        call.enqueue(queue="Small")
    full = call("POST", "/v1/queues/Small/messages", {"body": 1})
    assert (full.status, full.json["code"], full.headers["Retry-After"]) == (503, "queue_full", "5")
    large = call("POST", "/v1/queues/Small/messages", {"body": "x" * 200})
    assert (large.status, large.json["code"]) == (413, "body_too_large")


@pytest.mark.parametrize(
    ("method", "path", "document", "status", "code"),
    [
        ("POST", "/v1/queues/Jbos/messages", {"body": 1}, 404, "unknown_queue"),
        ("GET", "/v1/nothing", None, 404, "not_found"),
        ("DELETE", "/v1/queues/Jobs/messages", None, 405, "method_not_allowed"),
        ("POST", f"{JOBS}/messages", {"bdy": 1}, 400, "invalid_field"),
        ("POST", f"{JOBS}/messages", {}, 400, "invalid_field"),
        ("POST", f"{JOBS}/messages", {"body": 1, "body_base64": "eA=="}, 400, "invalid_field"),
        ("POST", f"{JOBS}/messages", {"body": 1, "delay_ms": -1}, 400, "invalid_field"),
        ("POST", f"{JOBS}/messages", {"body": 1, "not_before": "soon"}, 400, "invalid_field"),
        ("POST", f"{JOBS}/dequeue", {"wait_ms": 20_001}, 400, "invalid_field"),
        ("POST", f"{JOBS}/ack", {"claim": "c1.e30.AAAAAAAAAAAAAAAAAAAAAA"}, 400, "invalid_request"),
        ("POST", f"{JOBS}/ack", {"claim": 7}, 400, "invalid_field"),
        ("GET", f"{JOBS}/state", None, 400, "invalid_request"),
        ("GET", f"{JOBS}/messages/doesnotexist", None, 404, "not_found"),
        ("GET", f"{JOBS}/messages/%00", None, 404, "not_found"),
        ("GET", f"{JOBS}/dead-letters/x", None, 404, "not_found"),
        ("POST", "/v1/queues/Keyed/messages", {"body": 1}, 400, "invalid_field"),
    ],
)
def test_refusals_are_typed(call: Caller, method: str, path: str, document: Any, status: int, code: str) -> None:
    got = call(method, path, document, headers={"X-Correlation-Id": "c-9"})
    assert (got.status, got.json["code"]) == (status, code)
    assert got.headers["Content-Type"] == "application/problem+json"
    assert got.headers["X-Correlation-Id"] == got.json["correlation_id"] == "c-9"


@pytest.mark.parametrize("body", [b"{", b'{"a":1,"a":2}', b"NaN", b"\xff", b"[" * 100_000, b'"\\ud800"'])
def test_what_is_not_json_is_refused(call: Caller, body: bytes) -> None:
    got = call("POST", f"{JOBS}/messages", content=body, headers={"content-type": "application/json"})
    assert (got.status, got.json["code"]) == (400, "invalid_request")


def test_a_fault_of_ours_shows_nothing_of_itself(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret details")

    monkeypatch.setattr(call.api.service, "queue", broken)
    got = call("POST", f"{JOBS}/messages", {"body": 1})
    assert (got.status, got.json["code"]) == (500, "internal")
    assert b"secret" not in got.content


def test_claims_are_given_back_when_the_answer_cannot_be_made(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    call.enqueue()

    def broken(*_: object) -> str:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(call.api.service.handles, "write", broken)
        assert call("POST", f"{JOBS}/dequeue", {}).status == 500
    (held,) = call.dequeue()
    assert held["attempt"] == 1


def test_pause_and_the_lists(call: Caller) -> None:
    call.enqueue("a")
    call.enqueue("b", delay_ms=60_000)
    (held,) = call.dequeue(owner="me")
    claims = call("GET", f"{JOBS}/claims").json["claims"]
    assert [(c["message_id"], c["owner"]) for c in claims] == [(held["message_id"], "me")]
    assert len(call("GET", f"{JOBS}/messages", query="lane=scheduled").json["messages"]) == 1
    assert call("GET", f"{JOBS}/messages", query="lane=nowhere").status == 400
    call("POST", f"{JOBS}/release", {"claim": held["claim"]})
    assert call("POST", f"{JOBS}/pause").json["paused"]
    assert call.dequeue() == []
    queues = {queue["name"]: queue for queue in call("GET", "/v1/queues").json["queues"]}
    assert (queues["Jobs"]["paused"], queues["Jobs"]["depth"], queues["Wide"]["depth"]) == (True, 2, 0)
    assert not call("POST", f"{JOBS}/resume").json["paused"]
    assert len(call.dequeue()) == 1


def test_a_dead_letter_is_replayed_once_for_a_key_and_purged(call: Caller) -> None:
    call.enqueue("again", correlation_id="corr")
    (held,) = call.dequeue()
    call("POST", f"{JOBS}/nack", {"claim": held["claim"], "reject": True, "error": "bad luck"})
    (dead_letter,) = call("GET", f"{JOBS}/dead-letters", query="error=LUCK").json["dead_letters"]
    path = f"{JOBS}/dead-letters/{dead_letter['id']}"
    ids = {call("POST", f"{path}/replay", headers={"Idempotency-Key": "j"}).json["new_message_id"] for _ in range(3)}
    assert len(ids) == 1
    (again,) = call.dequeue(max=5)
    assert (again["body"], again["origin"], again["correlation_id"]) == ("again", held["message_id"], "corr")
    assert call("DELETE", path).json == {"ok": True}
    assert call("GET", path).status == 404


def test_a_result_of_bytes_is_kept_exactly_and_one_too_large_finishes_nothing(call: Caller) -> None:
    receipt = call.enqueue()
    (held,) = call.dequeue()
    large = base64.b64encode(b"\xff" * 33_000).decode()
    assert call("POST", f"{JOBS}/ack", {"claim": held["claim"], "result_base64": large}).status == 400
    assert call("POST", f"{JOBS}/ack", {"claim": held["claim"], "result_base64": "/w=="}).status == 200
    assert call("GET", f"{JOBS}/messages/{receipt['message_id']}").json["result_base64"] == "/w=="


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
    lines = call("POST", f"{path}/batch", {"messages": [{"body": _typed(TYPED)}, {"body": 1}]}).json["items"]
    assert [line["http_status"] for line in lines] == [202, 422]


def test_a_repeated_batch_request_makes_no_second_batch(call: Caller) -> None:
    asked = {"messages": [{"body": 1}, {"body": 2, "idempotency_key": "own"}]}
    first, again = (
        call("POST", f"{JOBS}/messages/batch", asked, headers={"Idempotency-Key": "r"}).json["items"] for _ in range(2)
    )
    assert [line["message_id"] for line in first] == [line["message_id"] for line in again]
    assert len(call.dequeue(max=10)) == 2


def test_no_round_of_a_batch_names_an_entry_twice(call: Caller, service: Service, tenant: str) -> None:
    """DynamoDB fails a whole batch that writes one key twice, after it has applied a part of it."""
    call.enqueue("a")
    call.enqueue("b")
    queue = service.queue(tenant, "Jobs")
    one, two = (service.handles.read(queue, held["claim"]) for held in call.dequeue(max=2))
    finishes = {n: Finish(held, {}) for n, held in enumerate((one, two, one, one, two))}
    assert list(rounds(finishes)) == [[0, 1], [2, 4], [3]]
