"""A queue's history through the API: from samples, and from how it stands now."""

from __future__ import annotations

from millrace.admin.service import AdminService
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack
from millrace.model.clock import DAY, MINUTE
from millrace.model.message import Draft
from millrace.model.queue_samples import HOUR, SAMPLE_MS, QueueSample
from tests.admin.calling import Caller
from tests.conftest import Clock

HISTORY = "/admin/queues/Jobs/history"


def test_a_queue_of_the_last_minutes_shows_all_that_came(call: Caller, service: AdminService, clock: Clock) -> None:
    queue = service.queue(call.tenant, "Jobs")
    for _ in range(3):
        enqueue(queue, Draft(b"{}"))
    ack(queue, [held.entry for held in claim(queue, owner="w", limit=1).claims])
    service.runtime.credits.give_back()
    clock.forward(20_000)
    found = call.ok("GET", HISTORY, query="range=hour")
    assert (found["step_seconds"], len(found["points"])) == (300, 12)
    last = found["points"][-1]
    assert (last["depth"], last["arrived"], last["done"], last["oldest_age_ms"]) == (2, 3, 1, 20_000)
    assert found["points"][0]["depth"] is None


def test_ranges_have_their_steps_and_add_up(call: Caller, service: AdminService, clock: Clock) -> None:
    queue, now = service.queue(call.tenant, "Jobs"), clock()
    for number, ago in enumerate((13 * DAY, 12 * DAY, 5 * HOUR, 20 * MINUTE)):
        sample = QueueSample(now - ago, 0, 0, arrived=10 * number, done=10 * number, failed=number, dead=0)
        queue.store.put_sample(call.tenant, "Jobs", sample)
    enqueue(queue, Draft(b"{}"))
    for name, steps, failed in (("hour", 12, 1), ("day", 96, 2), ("two_weeks", 168, 3)):
        found = call.ok("GET", HISTORY, query=f"range={name}")
        assert len(found["points"]) == steps
        assert sum(point["failed"] for point in found["points"]) == failed, name
    assert call.ok("GET", HISTORY)["range"] == "day"
    assert call("GET", HISTORY, query="range=year").status == 400


def test_a_queue_that_nobody_used_has_an_empty_history(call: Caller) -> None:
    found = call.ok("GET", HISTORY, query="range=hour")
    assert sum(point["arrived"] for point in found["points"]) == 0
    assert found["points"][-1]["depth"] == 0


def test_two_weeks_of_samples_add_up(call: Caller, service: AdminService, clock: Clock) -> None:
    store = service.runtime.store
    for hour in range(13 * 24):
        at = clock() - hour * HOUR - SAMPLE_MS
        store.put_sample(call.tenant, "Jobs", QueueSample(at, 1, 0, 1_000 - hour, 0, 0, 0))
    points = call.ok("GET", HISTORY, query="range=two_weeks")["points"]
    assert sum(point["arrived"] for point in points) == 13 * 24 - 1
