"""What the hammer found, each in the fewest steps: no process needs to be killed to see it again."""

from __future__ import annotations

import json

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import ORPHAN_GRACE_MS, enqueue, enqueue_all
from millrace.engine.finish import ack
from millrace.engine.queue import Queue
from millrace.model.errors import StaleClaim
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import Idempotency, Ordering
from millrace.stores.interface import WriteResult
from tests.conftest import Bench


class SenderKilled(Exception):
    """Stands for a SIGKILL between the two writes of an enqueue."""


def _send_and_die(bench: Bench, queue: Queue, count: int, key: str) -> None:
    """Leave `count` entries whose messages were never committed."""

    class Dying:
        def __getattr__(self, name: str) -> object:
            return getattr(bench.store, name)

        def put_messages(self, _messages: object) -> list[WriteResult[Entry]]:
            raise SenderKilled

    runtime = bench.another_process()
    runtime.store = Dying()  # type: ignore[assignment]
    drafts = [Draft(b"{}", key=key) for _ in range(count)]
    with pytest.raises(SenderKilled):
        enqueue_all(runtime.queue(queue.tenant, queue.spec), drafts)


@pytest.mark.parametrize("limit", [1, 10])
@pytest.mark.parametrize("ordering", list(Ordering))
def test_entries_of_a_killed_sender_do_not_hold_up_what_lies_behind_them(
    bench: Bench, ordering: Ordering, limit: int
) -> None:
    queue = bench.queue(ordering=ordering)
    _send_and_die(bench, queue, 25, "k")
    sent = [enqueue(queue, Draft(json.dumps(number).encode(), key="k")).message_id for number in range(3)]

    got = []
    for _ in sent:
        claims = claim(queue, owner="w", limit=limit).claims
        ack(queue, [one.entry for one in claims])
        got += [one.message.id for one in claims]

    assert got == sent


def test_a_long_unsent_message_is_looked_for_less_and_less_often(bench: Bench) -> None:
    queue = bench.queue()
    _send_and_die(bench, queue, 1, "")
    waits = []
    for _ in range(6):
        next_at = claim(queue, owner="w").next_at
        assert next_at is not None
        waits.append(next_at - bench.clock.now)
        bench.clock.now = next_at

    assert waits == sorted(waits)
    assert waits[0] == 50
    assert waits[-1] >= 16 * 50
    bench.clock.forward(ORPHAN_GRACE_MS)
    assert claim(queue, owner="w").claims == []
    assert claim(queue, owner="w").next_at is None


@pytest.mark.parametrize("cache_result", [True, False])
def test_a_stale_ack_is_refused_after_the_newer_claim_ended_the_message_and_its_worker_died(
    bench: Bench, cache_result: bool
) -> None:
    queue = bench.queue(idempotency=Idempotency(cache_result=cache_result))
    enqueue(queue, Draft(b"{}"))
    slow = claim(queue, owner="slow", lease_ms=1_000).claims[0]
    bench.clock.forward(1_000)
    quick = claim(queue, owner="quick", lease_ms=1_000).claims[0]
    bench.store.end_entries([quick.entry])  # and killed before it could keep the result

    (answer,) = ack(queue, [slow.entry])

    assert isinstance(answer, StaleClaim)


@pytest.mark.parametrize("cache_result", [True, False])
def test_an_ack_repeated_within_its_claim_succeeds_again(bench: Bench, cache_result: bool) -> None:
    queue = bench.queue(idempotency=Idempotency(cache_result=cache_result))
    enqueue(queue, Draft(b"{}"))
    held = claim(queue, owner="w", lease_ms=1_000).claims[0]

    assert ack(queue, [held.entry]) == [None]
    bench.clock.forward(999)
    assert ack(queue, [held.entry]) == [None]


def test_an_ack_repeated_after_its_claim_succeeds_again_where_its_result_tells_whose_it_was(bench: Bench) -> None:
    queue = bench.queue()
    enqueue(queue, Draft(b"{}"))
    held = claim(queue, owner="w", lease_ms=1_000).claims[0]

    assert ack(queue, [held.entry], [b"r"]) == [None]
    bench.clock.forward(5_000)
    assert ack(queue, [held.entry], [b"r"]) == [None]
