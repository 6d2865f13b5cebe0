"""Ack, nack, release and extend over HTTP, one and many: fenced by the claim."""

from __future__ import annotations

import base64

import pytest

from millrace.engine.operate import break_claim
from millrace.pull.finish import Finish, rounds
from millrace.pull.service import PullService
from tests.conftest import Clock
from tests.pull.calling import Caller

JOBS = "/v1/queues/Jobs"


def test_repeating_an_ack_that_succeeded_succeeds_again(call: Caller) -> None:
    call.enqueue()
    (held,) = call.dequeue()
    answers = [call("POST", f"{JOBS}/ack", {"claim": held["claim"]}) for _ in range(3)]
    assert [answer.status for answer in answers] == [200, 200, 200]


def test_a_repeated_ack_succeeds_while_the_lease_lasts_where_no_result_is_kept(call: Caller, clock: Clock) -> None:
    """Nobody else can have ended the message before the lease does; later nobody knows."""
    call.enqueue(queue="Forgetful")
    (held,) = call.dequeue("Forgetful", lease_ms=5_000)
    path = "/v1/queues/Forgetful/ack"
    assert [call("POST", path, {"claim": held["claim"]}).status for _ in range(2)] == [200, 200]
    clock.forward(5_000)
    assert call("POST", path, {"claim": held["claim"]}).status == 409


@pytest.mark.parametrize("queue", ["Jobs", "Forgetful"])
def test_an_ack_with_a_claim_that_an_operator_broke_is_refused(
    call: Caller, service: PullService, tenant: str, queue: str
) -> None:
    """Even within its lease, and even where another claim has finished the message."""
    receipt = call.enqueue(queue=queue)
    (broken,) = call.dequeue(queue)
    break_claim(service.queue(tenant, queue), receipt["message_id"])
    (newer,) = call.dequeue(queue)
    path = f"/v1/queues/{queue}/ack"
    assert call("POST", path, {"claim": newer["claim"]}).status == 200
    assert call("POST", path, {"claim": broken["claim"]}).status == 409
    assert call("POST", path, {"claim": newer["claim"]}).status == 200


@pytest.mark.parametrize("verb", ["ack", "nack", "release", "extend"])
def test_a_stale_claim_is_refused_with_the_current_version_and_changes_nothing(
    verb: str, call: Caller, clock: Clock, service: PullService
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
    assert (status["dead_letter"]["reason"], status["dead_letter"]["attempts"]) == ("exhausted", 3)


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


def test_batches_answer_for_each_item(call: Caller) -> None:
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


def test_a_result_of_bytes_is_kept_exactly_and_one_too_large_finishes_nothing(call: Caller) -> None:
    receipt = call.enqueue()
    (held,) = call.dequeue()
    large = base64.b64encode(b"\xff" * 66_000).decode()
    assert call("POST", f"{JOBS}/ack", {"claim": held["claim"], "result_base64": large}).status == 400
    assert call("POST", f"{JOBS}/ack", {"claim": held["claim"], "result_base64": "/w=="}).status == 200
    assert call("GET", f"{JOBS}/messages/{receipt['message_id']}").json["result_base64"] == "/w=="


def test_no_round_of_a_batch_names_an_entry_twice(call: Caller, service: PullService, tenant: str) -> None:
    """DynamoDB fails a whole batch that writes one key twice, after it has applied a part of it."""
    call.enqueue("a")
    call.enqueue("b")
    queue = service.queue(tenant, "Jobs")
    one, two = (service.handles.read(queue, held["claim"]) for held in call.dequeue(max=2))
    finishes = {n: Finish(held, {}) for n, held in enumerate((one, two, one, one, two))}
    assert list(rounds(finishes)) == [[0, 1], [2, 4], [3]]
