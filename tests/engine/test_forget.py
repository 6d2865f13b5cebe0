"""One verb forgets a message wherever it is in its life."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.engine.claim import claim
from millrace.engine.counters import flush
from millrace.engine.enqueue import enqueue
from millrace.engine.filtered import record_filtered
from millrace.engine.finish import ack
from millrace.engine.forget import forget_message
from millrace.engine.inspect import stats
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.model.errors import MessageHeld, NotFound, StaleClaim, StoreUnavailable
from millrace.model.message import Draft
from millrace.stores.interface import Refused
from tests.conftest import Bench
from tests.engine import test_erase
from tests.engine.steps import only, raising
from tests.engine.test_erase import LARGE, SECRET, traces

queue, tables = test_erase.queue, test_erase.tables


def scheduled(queue: Queue, body: bytes) -> str:
    return enqueue(queue, Draft(body, key=SECRET, not_before=queue.now() + 9_000)).message_id


def filtered(queue: Queue, _body: bytes) -> str:
    return record_filtered(queue, test_erase.draft()).message_id


LIVES: list[tuple[MessageStatus, Callable[[Queue, bytes], str]]] = [
    (MessageStatus.READY, test_erase.ready),
    (MessageStatus.READY, test_erase.retried),
    (MessageStatus.SCHEDULED, scheduled),
    (MessageStatus.IN_FLIGHT, test_erase.held),
    (MessageStatus.DONE, test_erase.done),
    (MessageStatus.DEAD, test_erase.dead),
    (MessageStatus.FILTERED, filtered),
]


@pytest.mark.parametrize(("before", "prepare"), LIVES, ids=lambda given: getattr(given, "__name__", str(given)))
def test_a_message_is_forgotten_wherever_it_is(
    bench: Bench, queue: Queue, before: MessageStatus, prepare: Callable[[Queue, bytes], str]
) -> None:
    message_id = prepare(queue, LARGE)
    assert forget_message(queue, message_id) is before
    assert SECRET not in traces(bench)
    assert not bench.blobs.objects
    assert status(queue, message_id).status is MessageStatus.PURGED
    assert forget_message(queue, message_id) is MessageStatus.PURGED, "a repeat finds nothing left to do"
    queue.runtime.credits.give_back()
    assert queue.state(fresh=True).depth == 0
    assert claim(queue, owner="w").claims == []
    with pytest.raises(NotFound):
        forget_message(queue, "unknown")


def test_a_holder_is_told_that_its_claim_is_stale(queue: Queue) -> None:
    message_id = test_erase.ready(queue, b"x")
    mine = only(claim(queue, owner="w"))
    assert forget_message(queue, message_id) is MessageStatus.IN_FLIGHT
    assert isinstance(ack(queue, [mine.entry])[0], StaleClaim)


def test_a_crash_is_finished_by_the_next_who_comes(bench: Bench, queue: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    message_id = test_erase.dead(queue, LARGE)
    steps: list[tuple[object, str]] = [(bench.blobs, "delete"), (bench.store, "delete_dead_letter")]
    for owner, step in steps:
        with monkeypatch.context() as patch:
            patch.setattr(owner, step, raising(StoreUnavailable("the process dies here")))
            with pytest.raises(StoreUnavailable):
                forget_message(queue, message_id)
        assert status(queue, message_id).status is MessageStatus.PURGED
    forget_message(queue, message_id)
    assert SECRET not in traces(bench)
    flush(queue)
    assert stats(queue).dead_letters == 0


def test_a_message_that_changes_hands_all_the_time_is_given_up(
    bench: Bench, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    message_id = test_erase.ready(queue, b"x")
    monkeypatch.setattr(bench.store, "erase_message", lambda _erasure: Refused(None))
    with pytest.raises(MessageHeld):
        forget_message(queue, message_id)
