"""The last messages of a queue that were done."""

from __future__ import annotations

from millrace.admin.service import AdminService
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack
from millrace.model.message import Draft
from millrace.model.queue_state import RECENT_DONE
from tests.admin.calling import Caller
from tests.conftest import Clock


def test_the_newest_done_come_first_and_older_ones_are_not_remembered(
    call: Caller, service: AdminService, clock: Clock
) -> None:
    queue = service.queue(call.tenant, "Jobs")
    ids = [enqueue(queue, Draft(b"{}", correlation_id=f"c-{n}")).message_id for n in range(RECENT_DONE + 2)]
    ack(queue, [held.entry for held in claim(queue, owner="w", limit=3).claims])
    clock.forward(1_000)
    for _ in range(RECENT_DONE - 1):
        ack(queue, [held.entry for held in claim(queue, owner="w", limit=1).claims], [b"1"])
    found = call.ok("GET", "/admin/queues/Jobs/done")
    assert [done["message_id"] for done in found["messages"]] == ids[:1:-1]
    assert (found["limit"], found["messages"][0]["correlation_id"]) == (RECENT_DONE, f"c-{RECENT_DONE + 1}")
    assert found["messages"][0]["finished_at"] == "2027-01-15T08:00:01.000Z"
    assert found["messages"][-1]["finished_at"] is None, "nothing was kept of it"


def test_a_key_that_was_sent_again_is_not_listed_as_done(call: Caller, service: AdminService, clock: Clock) -> None:
    queue = service.queue(call.tenant, "Brief")
    enqueue(queue, Draft(b"{}", idempotency_key="k"))
    ack(queue, [held.entry for held in claim(queue, owner="w").claims])
    assert len(call.ok("GET", "/admin/queues/Brief/done")["messages"]) == 1
    clock.forward(5_000)
    enqueue(queue, Draft(b"{}", idempotency_key="k"))
    assert call.ok("GET", "/admin/queues/Brief/done")["messages"] == []
