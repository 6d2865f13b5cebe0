"""Encrypted queues over the API: read by who may, told plainly where nobody can, and never in the others' way."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from millrace.definitions import Definitions
from millrace.engine.data_keys import USE_MS
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.queue import Runtime
from millrace.http.routes import Api
from millrace.model.message import DeadLetterReason
from millrace.model.tokens import Tokens
from millrace.openapi import V1_ROUTES
from millrace.pull.dispatcher import SHARED, Dispatcher
from millrace.pull.service import PullService
from millrace.stores.interface import Store
from millrace.stores.memory.keys import MemoryKeys
from millrace.stores.memory.queue import MemoryBlobs
from tests.conftest import Clock
from tests.pull.calling import Caller, defined

NOTHING: dict[str, Any] = {"webhooks": {}, "schedules": {}, "tenants": {}}
DEFINITIONS = Definitions({"queues": {"Jobs": defined("Jobs", encrypt="alias/shop-{tenant}")}, **NOTHING})
JOBS = "/v1/queues/Jobs"


@pytest.fixture
def keys() -> MemoryKeys:
    return MemoryKeys()


@pytest.fixture
def service(store: Store, tokens: Tokens, clock: Clock, keys: MemoryKeys) -> PullService:
    runtime = Runtime(store, MemoryBlobs(), clock=clock, chance=lambda: 0.5, keys=keys)
    return PullService(runtime, DEFINITIONS, tokens, Dispatcher(schedule=SHARED))


@pytest.fixture
def call(service: PullService, tenant: str) -> Caller:
    return Caller(Api(service, V1_ROUTES), tenant)


@pytest.fixture
def key(tenant: str) -> str:
    return f"alias/shop-{tenant}"


def test_a_message_lives_its_whole_life(call: Caller) -> None:
    receipt = call.enqueue({"n": 1}, idempotency_key="k")
    (held,) = call.dequeue(with_state=True)
    assert (held["body"], held["encrypted"], held["state"]) == ({"n": 1}, True, None)
    call("PUT", f"{JOBS}/state", {"claim": held["claim"], "state": {"step": 1}, "version": 0})
    assert call("GET", f"{JOBS}/state", headers={"X-Millrace-Claim": held["claim"]}).json["state"] == {"step": 1}
    call("POST", f"{JOBS}/nack", {"claim": held["claim"], "delay_ms": 0})
    (held,) = call.dequeue(with_state=True)
    assert held["state"] == {"step": 1}
    assert call("POST", f"{JOBS}/ack", {"claim": held["claim"], "result": {"ok": True}}).status == 200
    path = f"{JOBS}/messages/{receipt['message_id']}"
    assert call("GET", path).json["result"] == {"ok": True}
    assert call("GET", f"{path}/body").json == {"n": 1}
    again = call.enqueue({"n": 1}, idempotency_key="k")
    assert (again["duplicate"], again["result"]) == (True, {"ok": True})
    batch = call("POST", f"{JOBS}/messages/batch", {"messages": [{"body": {"n": 1}, "idempotency_key": "k"}]})
    assert batch.json["items"][0]["result"] == {"ok": True}
    other = call("POST", f"{JOBS}/messages", {"body": {"n": 2}, "idempotency_key": "k"})
    assert (other.status, other.json["code"]) == (409, "idempotency_conflict")


def test_without_its_key_a_queue_answers_503_and_names_it(
    call: Caller, clock: Clock, keys: MemoryKeys, key: str
) -> None:
    receipt = call.enqueue({"n": 1})
    (held,) = call.dequeue()
    call("POST", f"{JOBS}/ack", {"claim": held["claim"], "result": 1})
    clock.forward(USE_MS)
    keys.disable(key)
    got = call("POST", f"{JOBS}/messages", {"body": 1})
    assert (got.status, got.json["code"]) == (503, "key_unavailable")
    assert key in got.json["detail"]
    assert "Retry-After" in got.headers
    path = f"{JOBS}/messages/{receipt['message_id']}"
    shown = call("GET", path).json
    assert (shown["status"], shown["result_omitted"], "result" in shown) == ("done", True, False)
    assert call("GET", f"{path}/body").status == 503
    keys.delete(key)
    clock.forward(2_000)
    lost = call("GET", f"{path}/body")
    assert (lost.status, lost.json["code"]) == (410, "key_lost")


def test_what_cannot_be_read_waits_uncharged_and_what_can_is_handed_out(
    call: Caller, clock: Clock, keys: MemoryKeys, key: str
) -> None:
    call.enqueue("hidden")
    clock.forward(USE_MS)
    call.enqueue("shown")
    keys.disable(key)
    assert [held["body"] for held in call.dequeue(max=5)] == ["shown"]
    clock.forward(6_000)
    refused = call("POST", f"{JOBS}/dequeue", {"max": 5})
    assert (refused.status, refused.json["code"]) == (503, "key_unavailable")
    keys.enable(key)
    clock.forward(11_000)
    (held,) = call.dequeue(max=5)
    assert (held["body"], held["attempt"], held["deliveries"]) == ("hidden", 1, 3)


def test_a_state_that_cannot_be_read_keeps_its_message_back(
    call: Caller, clock: Clock, keys: MemoryKeys, key: str
) -> None:
    call.enqueue("early")
    (held,) = call.dequeue(lease_ms=USE_MS * 3)
    clock.forward(USE_MS)
    call("PUT", f"{JOBS}/state", {"claim": held["claim"], "state": {"step": 1}, "version": 0})
    call("POST", f"{JOBS}/release", {"claim": held["claim"]})
    clock.forward(USE_MS)
    keys.disable(key)
    assert call("POST", f"{JOBS}/dequeue", {"with_state": True, "bodies": "none"}).json["code"] == "key_unavailable"
    keys.enable(key)
    clock.forward(11_000)
    assert [one["state"] for one in call.dequeue(with_state=True)] == [{"step": 1}]


def test_a_message_whose_key_is_gone_is_a_dead_letter(
    call: Caller, clock: Clock, keys: MemoryKeys, key: str, service: PullService
) -> None:
    call.enqueue("lost")
    clock.forward(USE_MS)
    keys.delete(key)
    assert call.dequeue() == []
    (dead,) = list_dead_letters(service.queue(call.tenant, "Jobs")).items
    assert (dead.reason, dead.error_type) == (DeadLetterReason.BODY_LOST, "KeyLost")


def test_uploads_are_refused(call: Caller) -> None:
    asked = {"sha256": sha256(b"x").hexdigest(), "size": 1}
    for path, document in ((f"{JOBS}/uploads", asked), (f"{JOBS}/messages", {"body_upload": asked})):
        got = call("POST", path, document)
        assert (got.status, got.json["code"]) == (422, "upload_refused")
        assert "encrypted" in got.json["detail"]
