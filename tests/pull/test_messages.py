"""Queues and messages by their ids, as producers and consumers see them."""

from __future__ import annotations

import base64

from millrace.engine.claim import claim
from millrace.engine.dead_letters import replay
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, ack, nack
from millrace.engine.operate import pause, resume
from millrace.http.bodies import MAX_PART
from millrace.model.message import Draft
from millrace.pull.service import PullService
from tests.conftest import Clock
from tests.pull.calling import Caller

JOBS = "/v1/queues/Jobs"


def test_queues_are_listed_with_what_a_caller_needs(call: Caller, service: PullService) -> None:
    pause(service.queue(call.tenant, "Jobs"), "olga")
    queues = {queue["name"]: queue for queue in call("GET", "/v1/queues").json["queues"]}
    assert (queues["Jobs"]["paused"], queues["Wide"]["paused"]) == (True, False)
    assert (queues["Small"]["max_body_bytes"], queues["Small"]["max_depth"]) == (100, 2)
    resume(service.queue(call.tenant, "Jobs"), "olga")
    assert call("GET", JOBS).json == {**queues["Jobs"], "paused": False}
    assert (queues["Ordered"]["ordering"], queues["Jobs"]["lease_ms"], queues["Jobs"]["max_attempts"]) == (
        "fifo",
        30_000,
        3,
    )


def test_a_message_shows_its_whole_life(call: Caller, service: PullService, clock: Clock) -> None:
    queue = service.queue(call.tenant, "Jobs")
    receipt = enqueue(queue, Draft(b'{"a": 1}', source="github", correlation_id="corr-1"))
    for _ in range(3):
        clock.forward(10_000)
        (held,) = claim(queue, owner="worker-1", limit=1).claims
        clock.forward(100)
        nack(queue, held.entry, held.message, RunFailure("TimeoutError", "no answer"), lost=held.lost)
    shown = call("GET", f"{JOBS}/messages/{receipt.message_id}").json
    assert shown["status"] == "dead"
    assert [moment["what"] for moment in shown["timeline"]] == ["received", *["claimed", "failed"] * 3, "dead"]
    assert shown["timeline"][2]["error"] == "no answer"
    assert shown["timeline"][-1]["error_type"] == "exhausted"
    found = service.runtime.store.get_dead_letter(call.tenant, "Jobs", shown["dead_letter"]["id"].replace(".", "#"))
    assert found is not None
    replayed = replay(queue, found, "once")
    after = call("GET", f"{JOBS}/messages/{receipt.message_id}").json
    assert after["timeline"][-1]["message_id"] == after["dead_letter"]["replayed_as"] == replayed.message_id
    again = call("GET", f"{JOBS}/messages/{replayed.message_id}").json
    assert (again["origin"], again["correlation_id"]) == (receipt.message_id, "corr-1")
    (held,) = claim(queue, owner="worker-2", limit=1).claims
    assert call("GET", f"{JOBS}/messages/{held.message.id}").json["timeline"][-1]["who"] == "worker-2"
    ack(queue, [held.entry], [b'"fine"'])
    done = call("GET", f"{JOBS}/messages/{held.message.id}").json
    assert (done["status"], done["timeline"][-1]["what"], done["result"]) == ("done", "done", "fine")


def test_a_message_belongs_to_its_tenant_and_queue(call: Caller) -> None:
    receipt = call.enqueue()
    other = Caller(call.api, f"{call.tenant}-other")
    for path in ("", "/body"):
        assert other("GET", f"{JOBS}/messages/{receipt['message_id']}{path}").status == 404
        assert call("GET", f"/v1/queues/Wide/messages/{receipt['message_id']}{path}").status == 404


def test_a_body_is_downloaded_byte_for_byte(call: Caller) -> None:
    body = bytes(range(256)) * 4 + b"<script>"
    message_id = call(
        "POST", f"{JOBS}/messages", {"body_base64": base64.b64encode(body).decode(), "content_type": "text/html"}
    ).json["message_id"]
    got = call("GET", f"{JOBS}/messages/{message_id}/body")
    assert (got.status, got.content, got.headers["Content-Type"]) == (200, body, "text/html")
    assert got.headers["Content-Disposition"] == "attachment"
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    part = call("GET", f"{JOBS}/messages/{message_id}/body", headers={"range": "bytes=10-19"})
    assert (part.status, part.content) == (206, body[10:20])


def test_a_body_opens_to_consumers_and_to_readers(call: Caller) -> None:
    path = f"{JOBS}/messages/{call.enqueue()['message_id']}/body"
    found = {
        scope: Caller(call.api, call.tenant, scope)("GET", path).status for scope in ("consume", "read", "enqueue")
    }
    assert found == {"consume": 200, "read": 200, "enqueue": 403}


def test_large_bodies_are_left_out_and_fetched_in_parts(call: Caller, service: PullService) -> None:
    data = b"x" * (MAX_PART + 1024 * 1024)
    enqueue(service.queue(call.tenant, "Jobs"), Draft(data, content_type="text/plain"))
    (held,) = call.dequeue()
    assert held["body_omitted"]
    assert held["size"] == len(data)
    path = f"{JOBS}/messages/{held['message_id']}/body"
    first = call("GET", path)
    assert (first.status, first.headers["Content-Range"]) == (206, f"bytes 0-{MAX_PART - 1}/{len(data)}")
    second = call("GET", path, headers={"range": f"bytes={MAX_PART}-"})
    assert first.content + second.content == data
    assert call("GET", path, headers={"range": "bytes=99999999-"}).status == 400
