"""What the verbs record of a message's life."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from millrace.engine.claim import Claim, claim
from millrace.engine.enqueue import Receipt, enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, nack, reject, release, snooze
from millrace.engine.operate import purge_page
from millrace.engine.queue import Queue
from millrace.history.log import HistoryLog
from millrace.history.reader import LogRecords
from millrace.history.records import HistoryRecord
from millrace.model.errors import StaleClaim
from millrace.model.message import Draft
from millrace.model.queue_spec import Jitter, Ordering, QueueSpec, RetryPolicy
from millrace.worker.worker import Worker, WorkerSettings
from tests.conftest import Bench

BODY, KEY, IDEMPOTENCY, RESULT = b'{"say":"marked-body"}', "marked-key", "marked-idempotency", b"marked-result"

AT_ONCE = WorkerSettings(patience_ms=0, heartbeat=False)


class Recorded:
    """A queue whose history is kept in memory."""

    def __init__(self, bench: Bench, **spec: Any) -> None:
        self.lines: list[str] = []
        self.bench = bench
        runtime = bench.another_process()
        runtime.history = HistoryLog(self.lines.append)
        self.queue: Queue = runtime.queue(bench.tenant, QueueSpec("Recorded", **spec))

    def take(self, owner: str = "w1") -> Claim:
        (held,) = claim(self.queue, owner=owner).claims
        return held

    def events(self) -> Counter[str]:
        return Counter(record.event.value for record in self.records())

    def records(self) -> list[HistoryRecord]:
        log = LogRecords()
        found = list(log.read("memory", self.lines))
        assert (log.recorded, log.other, log.torn) == (len(self.lines), 0, [])
        return found


@pytest.fixture
def recorded(bench: Bench) -> Recorded:
    return Recorded(bench, delivery=RetryPolicy(max_attempts=2, initial_backoff_ms=1, max_backoff_ms=1))


def test_a_life_is_told_step_by_step_and_a_batch_in_one_line(recorded: Recorded) -> None:
    enqueue_all(recorded.queue, [Draft(BODY, idempotency_key=f"{IDEMPOTENCY}-{n}") for n in range(3)])
    held = claim(recorded.queue, owner="w1", limit=3).claims
    ack(recorded.queue, [one.entry for one in held], [RESULT] * 3)

    assert len(recorded.lines) == 3
    assert recorded.events() == {"accepted": 3, "ending": 3, "done": 3}
    assert {record.version for record in recorded.records()[3:]} == {1}
    assert {record.owner for record in recorded.records()[3:]} == {"w1"}


def test_every_other_ending_is_told(recorded: Recorded) -> None:
    queue = recorded.queue
    enqueue_all(queue, [Draft(b"%d" % n) for n in range(5)])
    failed, rejected, released, snoozed, lost = claim(queue, owner="w1", limit=5).claims
    nack(queue, failed.entry, failed.message, RunFailure("Flaky", "marked-error"))
    reject(queue, rejected.entry, rejected.message, RunFailure("Bad", "marked-error"))
    release(queue, [released.entry])
    snooze(queue, snoozed.entry, queue.now() + 60_000)
    recorded.bench.clock.forward(queue.spec.lease_ms + 1)
    retaken = {held.entry.id: held for held in claim(queue, owner="w2", limit=5).claims}
    assert isinstance(ack(queue, [lost.entry])[0], StaleClaim)
    exhausted = retaken[failed.entry.id]
    assert nack(queue, exhausted.entry, exhausted.message, RunFailure("Flaky", "marked-error")) is None
    release(queue, [retaken[lost.entry.id].entry, retaken[released.entry.id].entry])
    purged = purge_page(queue).removed

    assert purged == 2
    assert recorded.events() == {
        "accepted": 5, "failed": 1, "dead": 2, "released": 4, "stale": 1, "ending": 3, "purged": 2
    }  # fmt: skip


def test_a_refused_retry_and_a_refused_burial_are_stale(recorded: Recorded) -> None:
    enqueue(recorded.queue, Draft(b"1"))
    first = recorded.take()
    recorded.bench.clock.forward(recorded.queue.spec.lease_ms + 1)
    recorded.take("w2")
    for verb in (nack, reject):
        with pytest.raises(StaleClaim):
            verb(recorded.queue, first.entry, first.message, RunFailure("Late", "too late"))

    assert recorded.events()["stale"] == 2


def test_a_worker_tells_its_starts(recorded: Recorded) -> None:
    enqueue(recorded.queue, Draft(b"1"))
    Worker(recorded.queue, lambda context: context.version, settings=AT_ONCE).run()

    assert [record.event.value for record in recorded.records()] == ["accepted", "started", "ending", "done"]


def test_a_repeat_of_a_queued_message_is_accepted_and_one_of_an_ended_message_is_not(recorded: Recorded) -> None:
    draft = Draft(BODY, idempotency_key=IDEMPOTENCY)
    receipts: list[Receipt] = [enqueue(recorded.queue, draft), enqueue(recorded.queue, draft)]
    ack(recorded.queue, [recorded.take().entry])
    receipts.append(enqueue(recorded.queue, draft))

    accepted = [record for record in recorded.records() if record.event.value == "accepted"]
    assert [receipt.duplicate for receipt in receipts] == [False, True, True]
    assert [(record.message, record.nonce) for record in accepted] == [(receipts[0].message_id, accepted[0].nonce)] * 2


def test_an_ordered_queue_tells_line_number_and_sending_time_but_no_key(bench: Bench) -> None:
    recorded = Recorded(bench, ordering=Ordering.PER_KEY)
    for key in (KEY, "other", KEY):
        enqueue(recorded.queue, Draft(BODY, key=key))

    first, other, third = recorded.records()
    assert (first.key == third.key, first.key == other.key) == (True, False)
    assert (first.sequence, other.sequence, third.sequence) == (1, 2, 3)
    assert first.sent == bench.clock()


def test_nothing_that_a_sender_wrote_and_no_token_is_in_the_history(bench: Bench) -> None:
    recorded = Recorded(bench, ordering=Ordering.PER_KEY)
    draft = Draft(BODY, key=KEY, idempotency_key=IDEMPOTENCY, headers={"x": "marked-header"}, correlation_id="marked")
    enqueue(recorded.queue, draft)
    held = recorded.take()
    ack(recorded.queue, [held.entry], [RESULT])

    written = "".join(recorded.lines)
    assert "marked" not in written
    assert held.entry.token not in written
    assert held.entry.nonce not in written


def test_lines_say_what_liveness_is_judged_by(bench: Bench) -> None:
    """The attempts that a queue allows, priorities, and when what may not run at once is due."""
    policy = RetryPolicy(max_attempts=7, initial_backoff_ms=2_000, max_backoff_ms=2_000, jitter=Jitter.NONE)
    recorded = Recorded(bench, delivery=policy)
    queue, now = recorded.queue, bench.clock()
    enqueue_all(queue, [Draft(b"a", priority=9), Draft(b"b", priority=9), Draft(b"c", not_before=now + 500)])
    failed, snoozed = claim(queue, owner="w", limit=2).claims
    nack(queue, failed.entry, failed.message, RunFailure("E", "e"))
    snooze(queue, snoozed.entry, now + 9_000)
    accepted = [record for record in recorded.records() if record.event.value == "accepted"]
    assert {record.max_attempts for record in accepted} == {7}
    assert [(record.priority, record.due) for record in accepted][:2] == [(9, 0), (9, 0)]
    assert accepted[2].due == now + 500
    assert [(r.event.value, r.due) for r in recorded.records()[3:]] == [
        ("failed", now + 2_000),
        ("released", now + 9_000),
    ]
