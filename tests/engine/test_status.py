"""The statuses of many messages at once: the same answer as asking for each, also while they move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from millrace.engine.claim import Claim, claim
from millrace.engine.enqueue import enqueue
from millrace.engine.filtered import record_filtered
from millrace.engine.finish import RunFailure, ack, nack, reject
from millrace.engine.operate import purge_page
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status, statuses
from millrace.model.errors import NotFound
from millrace.model.message import Draft
from millrace.model.queue_spec import Idempotency, Ordering, RetryPolicy
from tests.conftest import Bench

FAILURE = RunFailure("E", "broken")


def send(queue: Queue, name: str, **draft: Any) -> str:
    return enqueue(queue, Draft(b"x", idempotency_key=name, **draft)).message_id


def hold(queue: Queue, message_id: str) -> Claim:
    (held,) = (held for held in claim(queue, owner="w", limit=50).claims if held.entry.id == message_id)
    return held


def retried(queue: Queue) -> str:
    message_id = send(queue, "retried")
    held = hold(queue, message_id)
    nack(queue, held.entry, held.message, FAILURE, delay_ms=60_000)
    return message_id


def dead(queue: Queue) -> str:
    message_id = send(queue, "dead")
    held = hold(queue, message_id)
    reject(queue, held.entry, held.message, FAILURE)
    return message_id


def done(queue: Queue) -> str:
    message_id = send(queue, "done")
    ack(queue, [hold(queue, message_id).entry], [b"result"])
    return message_id


def purged(queue: Queue) -> str:
    message_id = send(queue, "purged")
    purge_page(queue)
    return message_id


def claimed(queue: Queue) -> str:
    message_id = send(queue, "claimed")
    hold(queue, message_id)
    return message_id


#: In an order in which none disturbs another.
EACH: list[tuple[MessageStatus, Callable[[Queue], str]]] = [
    (MessageStatus.PURGED, purged),
    (MessageStatus.DEAD, dead),
    (MessageStatus.DONE, done),
    (MessageStatus.SCHEDULED, retried),
    (MessageStatus.IN_FLIGHT, claimed),
    (MessageStatus.SCHEDULED, lambda queue: send(queue, "later", not_before=queue.now() + 60_000)),
    (MessageStatus.READY, lambda queue: send(queue, "ready")),
    (MessageStatus.FILTERED, lambda queue: record_filtered(queue, Draft(b"x", idempotency_key="filtered")).message_id),
]


def asked_singly(queue: Queue, ids: list[str]) -> dict[str, MessageStatus]:
    found = {}
    for message_id in ids:
        try:
            found[message_id] = status(queue, message_id).status
        except NotFound:
            continue
    return found


def test_many_statuses_at_once_are_those_of_each(bench: Bench) -> None:
    queue = bench.queue()
    expected = {make(queue): status for status, make in EACH}
    ids = [*expected, "nobody", *expected]
    assert statuses(queue, ids) == expected == asked_singly(queue, ids)
    bench.clock.forward(61_000)
    later = statuses(queue, ids)
    assert later == asked_singly(queue, ids)
    assert sum(status is MessageStatus.READY for status in later.values()) == 4, (
        "delays are over, the claim has run out"
    )
    assert statuses(queue, []) == {}


def test_messages_of_another_queue_or_tenant_are_not_found(bench: Bench) -> None:
    queue = bench.queue()
    others = [bench.queue("Other"), bench.runtime.queue(f"{bench.tenant}-b", queue.spec)]
    ids = [send(other, "key") for other in others]
    assert statuses(queue, ids) == {}
    assert [statuses(other, ids) for other in others] == [{ids[0]: MessageStatus.READY}, {ids[1]: MessageStatus.READY}]


def test_a_replaced_message_is_not_where_its_predecessor_was(bench: Bench) -> None:
    """The first died; its record stays behind when a new message takes its id."""
    queue = bench.queue(idempotency=Idempotency(window_seconds=60), delivery=RetryPolicy(max_attempts=1))
    first = dead(queue)
    bench.clock.forward(60_000)
    assert send(queue, "dead") == first
    assert statuses(queue, [first]) == {first: MessageStatus.READY} == asked_singly(queue, [first])
    ack(queue, [hold(queue, first).entry])
    assert statuses(queue, [first]) == {first: MessageStatus.DONE} == asked_singly(queue, [first])


def test_somebody_elses_entry_in_its_place_does_not_make_it_ready(bench: Bench) -> None:
    queue = bench.queue()
    message_id = send(queue, "key")
    held = hold(queue, message_id).entry
    ack(queue, [held])
    bench.store.put_entries([replace(held.unclaimed(), nonce="another")])
    assert statuses(queue, [message_id]) == {message_id: MessageStatus.DONE} == asked_singly(queue, [message_id])


def test_an_ordered_queue_retries_in_place(bench: Bench) -> None:
    queue = bench.queue(ordering=Ordering.FIFO)
    message_id = retried(queue)
    assert statuses(queue, [message_id]) == {message_id: MessageStatus.SCHEDULED}


@dataclass
class Interrupted:
    """A store in which something happens right before the reads of a method."""

    store: Any
    method: str
    happenings: list[Callable[[], object]]

    def __getattr__(self, name: str) -> Any:
        if name == self.method and self.happenings:
            self.happenings.pop(0)()
        return getattr(self.store, name)


def retry(queue: Queue, message_id: str) -> None:
    held = hold(queue, message_id)
    nack(queue, held.entry, held.message, FAILURE, delay_ms=1)
    queue.runtime.clock.forward(1)  # type: ignore[attr-defined]


def bury(queue: Queue, message_id: str) -> None:
    held = hold(queue, message_id)
    reject(queue, held.entry, held.message, FAILURE)


def finish(queue: Queue, message_id: str) -> None:
    ack(queue, [hold(queue, message_id).entry])


Step = Callable[[Queue, str], None]


@pytest.mark.parametrize(
    ("method", "happens", "status"),
    [
        ("get_locations", [retry], MessageStatus.SCHEDULED),
        ("get_locations", [bury], MessageStatus.DEAD),
        ("get_locations", [finish], MessageStatus.DONE),
        ("get_entries", [retry], MessageStatus.SCHEDULED),
        ("get_entries", [bury], MessageStatus.DEAD),
        ("get_entries", [finish], MessageStatus.DONE),
        ("get_entries", [retry, retry, retry], MessageStatus.SCHEDULED),
        ("get_entries", [retry, bury], MessageStatus.DEAD),
        ("get_entries", [retry, finish], MessageStatus.DONE),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(step.__name__ for step in value),
)
def test_a_message_that_moves_between_the_reads_is_followed(
    bench: Bench, method: str, happens: list[Step], status: MessageStatus
) -> None:
    """Its entry is gone from where it was looked for; that alone does not make it done."""
    queue = bench.queue(delivery=RetryPolicy(max_attempts=9))
    moving, still = send(queue, "moving"), send(queue, "still", not_before=queue.now() + 3_600_000)
    store: Any = Interrupted(bench.store, method, [partial(step, queue, moving) for step in happens])
    runtime = bench.another_process()
    runtime.store = store
    assert statuses(runtime.queue(bench.tenant, queue.spec), [moving, still]) == {
        moving: status,
        still: MessageStatus.SCHEDULED,
    }
    assert store.happenings == []


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return bench.queue(delivery=RetryPolicy(max_attempts=1), lease_seconds=600)


def test_an_unknown_message_is_not_found(bench: Bench, queue: Queue) -> None:
    other = enqueue(bench.queue("Other"), Draft(b"x")).message_id
    for message_id in ("nobody", other):
        with pytest.raises(NotFound, match="message"):
            status(queue, message_id)
