"""Bodies are written down and read back in one place; large ones as blobs under the hash of their content."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from millrace.engine.bodies import wait_to_read
from millrace.engine.claim import body_of, claim
from millrace.engine.enqueue import LOOK_FROM, enqueue, enqueue_all
from millrace.engine.finish import ack
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import MessageStatus, status
from millrace.model.body import INLINE_LIMIT, PACK_FROM
from millrace.model.errors import BodyLost, QueueFull, StoreUnavailable
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import Idempotency, QueueSpec, Retention
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.conftest import Clock

NOISE = random.Random(1).randbytes(INLINE_LIMIT + 1)
LARGE = NOISE[:30_000]


@pytest.fixture
def blobs() -> MemoryBlobs:
    return MemoryBlobs()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def queue(store: MemoryStore, blobs: MemoryBlobs, clock: Clock) -> Queue:
    spec = QueueSpec("Jobs", idempotency=Idempotency(window_seconds=60), retention=Retention(max_depth=3))
    return Runtime(store, blobs, clock=clock).queue("t", spec)


@pytest.mark.parametrize("data", [b"", b"a" * PACK_FROM, NOISE[:INLINE_LIMIT], NOISE, b"a" * 1_000_000])
def test_a_body_comes_back_as_it_was(queue: Queue, data: bytes) -> None:
    enqueue(queue, Draft(data))
    (held,) = claim(queue, owner="w").claims
    assert bool(held.message.body.blob) == (data is NOISE)
    assert body_of(queue, held) == data


def test_other_bytes_in_a_blobs_place_are_refused(queue: Queue, blobs: MemoryBlobs) -> None:
    enqueue(queue, Draft(NOISE))
    (held,) = claim(queue, owner="w").claims
    blobs.put(held.message.body.blob, NOISE[:-1] + b"x")
    with pytest.raises(BodyLost, match="does not hold"):
        body_of(queue, held)


@pytest.mark.parametrize("data", [b"", b"a" * PACK_FROM, NOISE], ids=["plain", "packed", "blob"])
def test_a_body_is_told_from_another_without_reading_a_blob(queue: Queue, blobs: MemoryBlobs, data: bytes) -> None:
    message = status(queue, enqueue(queue, Draft(data)).message_id).message
    blobs.objects.clear()
    bodies = queue.runtime.bodies
    assert bodies.is_body_of(message, data)
    assert not bodies.is_body_of(message, data + b"!")
    assert not data or not bodies.is_body_of(message, b"!" + data[1:])


def test_a_repeat_leaves_no_object_behind(queue: Queue, blobs: MemoryBlobs) -> None:
    first = enqueue(queue, Draft(NOISE, idempotency_key="k"))
    again = enqueue(queue, Draft(NOISE, idempotency_key="k"))
    other = enqueue(queue, Draft(NOISE[::-1], idempotency_key="k"))
    assert again.duplicate
    assert other.duplicate
    (name,) = blobs.objects
    assert name.startswith(f"t/Jobs/{first.message_id}/")


def test_a_repeat_that_was_not_seen_in_time_names_the_same_object(
    queue: Queue, blobs: MemoryBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two senders at the same moment: neither finds the other's message."""
    monkeypatch.setattr("millrace.engine.enqueue._known", lambda *_: None)
    enqueue(queue, Draft(NOISE, idempotency_key="k"))
    assert enqueue(queue, Draft(NOISE, idempotency_key="k")).duplicate
    assert len(blobs.objects) == 1


def test_two_messages_with_one_body_have_an_object_each(queue: Queue, blobs: MemoryBlobs) -> None:
    """So that one of them can be erased, and its object expire, without the other."""
    enqueue_all(queue, [Draft(NOISE, idempotency_key="a"), Draft(NOISE, idempotency_key="b")])
    assert len(blobs.objects) == 2


@pytest.mark.parametrize(
    ("size", "key", "writes"),
    [(LOOK_FROM, "k", 0), (LOOK_FROM - 1, "k", 1), (LOOK_FROM, None, 1)],
    ids=["large", "small", "without a key"],
)
def test_only_a_large_message_with_a_key_is_looked_up(
    queue: Queue, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, size: int, key: str | None, writes: int
) -> None:
    enqueue(queue, Draft(NOISE[:size], idempotency_key=key))
    put: list[Entry] = []
    put_entries = store.put_entries

    def noted(entries: list[Entry]) -> object:
        put.extend(entries)
        return put_entries(entries)

    monkeypatch.setattr(store, "put_entries", noted)
    enqueue(queue, Draft(NOISE[:size], idempotency_key=key))
    assert len(put) == writes


def test_a_repeat_of_a_large_message_takes_no_room(queue: Queue) -> None:
    for key in "abc":
        enqueue(queue, Draft(LARGE, idempotency_key=key))
    with pytest.raises(QueueFull):
        enqueue(queue, Draft(LARGE, idempotency_key="d"))
    for held in claim(queue, owner="w", limit=2).claims:
        assert ack(queue, [held.entry], [b"r"]) == [None]
    queue.runtime.clock.forward(1_000)  # type: ignore[attr-defined]
    for _ in range(5):
        assert enqueue(queue, Draft(LARGE, idempotency_key="c")).status is MessageStatus.READY
    assert enqueue(queue, Draft(LARGE, idempotency_key="a")).result == b"r"
    for key in "de":
        assert not enqueue(queue, Draft(LARGE, idempotency_key=key)).duplicate


def test_a_large_message_is_accepted_again_after_its_window(queue: Queue, clock: Clock) -> None:
    enqueue(queue, Draft(LARGE, idempotency_key="k"))
    clock.forward(61_000)
    assert enqueue(queue, Draft(LARGE, idempotency_key="k")).duplicate, "still queued"
    (held,) = claim(queue, owner="w").claims
    assert ack(queue, [held.entry]) == [None]
    assert not enqueue(queue, Draft(LARGE, idempotency_key="k")).duplicate


def test_a_look_that_gets_no_answer_accepts_nothing(
    queue: Queue, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_id: str) -> None:
        raise StoreUnavailable("silent")

    monkeypatch.setattr(store, "get_records", silent)
    with pytest.raises(StoreUnavailable):
        enqueue(queue, Draft(LARGE, idempotency_key="k"))
    assert not store.entries
    monkeypatch.undo()
    spec = replace(queue.spec, retention=Retention(max_depth=1))
    assert not enqueue(queue.runtime.queue("t", spec), Draft(LARGE, idempotency_key="k")).duplicate, (
        "its credit is back"
    )


def test_a_message_that_cannot_be_read_waits_longer_each_time() -> None:
    waits = [wait_to_read(deliveries) // 1000 for deliveries in (0, 1, 2, 3, 4, 5, 6, 90)]
    assert waits == [5, 5, 10, 20, 40, 80, 80, 80]
