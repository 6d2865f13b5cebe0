"""Why a queue stands still, in words, and what an operator can do about it."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.admin.service import AdminService
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, ack, nack
from millrace.model.message import Draft
from millrace.model.queue_state import BreakerState
from tests.admin.calling import Caller
from tests.conftest import Clock


@pytest.fixture
def why(call: Caller) -> Any:
    return lambda name="Jobs": [
        (reason["kind"], reason["says"], reason["action"])
        for reason in call.ok("GET", f"/admin/queues/{name}")["standing_still"]
    ]


def test_a_queue_that_works_has_nothing_to_say(why: Any, call: Caller, service: AdminService) -> None:
    enqueue(service.queue(call.tenant, "Jobs"), Draft(b"{}"))
    assert why() == []


def test_a_pause_says_who_and_since_when(why: Any, call: Caller, clock: Clock) -> None:
    call.ok("POST", "/admin/queues/Jobs/pause")
    clock.forward(90_000)
    ((kind, says, action),) = why()
    assert (kind, action) == ("paused", "resume")
    assert says.startswith("standing still because olga paused it 1 min 30 s ago")


def test_a_target_that_is_down_says_when_it_is_looked_at_again(why: Any, call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    now = queue.now()
    queue.store.set_breaker(queue.state(fresh=True), "http:down", BreakerState(now + 12_000, 2, now - 60_000))
    says = "standing still because http:down is down for 1 min, next look in 12 s"
    assert why() == [("target_down", says, "reset_breakers")]


def test_a_fifo_queue_waits_for_its_first(why: Any, call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Ordered")
    for _ in range(3):
        enqueue(queue, Draft(b"{}"))
    (held,) = claim(queue, owner="w", limit=1).claims
    nack(queue, held.entry, held.message, RunFailure("E", "x"), delay_ms=30_000)
    says = "standing still because the first in line failed and 2 behind it wait, next try in 30 s"
    assert why("Ordered") == [("first_in_line", says, "none")]


def test_limits_say_how_many_wait(why: Any, call: Caller, service: AdminService) -> None:
    wide, small = service.queue(call.tenant, "Wide"), service.queue(call.tenant, "Small")
    for _ in range(3):
        enqueue(wide, Draft(b"{}"))
        enqueue(small, Draft(b"{}"))
    wide.store.set_pace(wide.state(fresh=True), wide.now() + 400)
    assert why("Wide") == [("rate", "3 wait because its rate is 5 a second, next start in 1 s", "none")]
    full = "new messages are refused (503) because it holds 3, as many as max_depth allows"
    assert why("Small") == [("full", full, "none")]
    jobs = service.queue(call.tenant, "Jobs")
    for _ in range(12):
        enqueue(jobs, Draft(b"{}"))
    claim(jobs, owner="w", limit=10)
    busy = "2 wait because 10 run at the same time, as many as max_concurrency allows"
    assert why("Jobs") == [("concurrency", busy, "none")]


def test_messages_that_nobody_takes_are_named(why: Any, call: Caller, service: AdminService, clock: Clock) -> None:
    enqueue(service.queue(call.tenant, "Jobs"), Draft(b"{}"))
    clock.forward(180_000)
    ((kind, says, _),) = why()
    assert kind == "nobody_works"
    assert says == "1 are ready, the oldest came 3 min ago, and nobody takes them: does a worker run for Jobs?"


def test_keys_whose_places_are_taken_are_counted_with_what_waits_behind_them(
    why: Any, call: Caller, service: AdminService
) -> None:
    queue = service.queue(call.tenant, "Places")
    for key in "aaaabbbc":
        enqueue(queue, Draft(b"{}", key=key))
    assert why("Places") == []
    claims = claim(queue, owner="w", limit=9).claims
    says = "3 wait because 2 keys have 2 in hand or waiting for a retry, as many as their queue allows"
    assert why("Places") == [("full_keys", says, "none")]
    (held, *_) = [one for one in claims if one.entry.key == "a"]
    nack(queue, held.entry, held.message, RunFailure("E", "x"), delay_ms=30_000)
    assert why("Places") == [("full_keys", says, "none")]
    for one in claims:
        if one.entry.key == "b":
            ack(queue, [one.entry])
    says = "2 wait because 1 key has 2 in hand or waiting for a retry, as many as their queue allows"
    assert why("Places") == [("full_keys", says, "none")]
    assert call.ok("GET", "/admin/queues/Places")["concurrency_per_key"] == 2
