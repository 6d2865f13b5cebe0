"""An encrypted queue: nothing that somebody wrote lies anywhere in plain, and nothing is read in another place."""

from __future__ import annotations

import random
import zlib
from dataclasses import replace
from typing import Any

import pytest

from millrace.engine.claim import Claim, body_of, claim
from millrace.engine.data_keys import USE_MS
from millrace.engine.dead_letters import list_dead_letters, replay
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, nack
from millrace.engine.queue import Queue, Runtime
from millrace.engine.results import read_result
from millrace.engine.status import MessageStatus, status
from millrace.engine.transact import end_with
from millrace.engine.workflow_state import read_workflow_state, write_workflow_state
from millrace.model.body import INLINE_LIMIT, PACK_LEVEL
from millrace.model.errors import BodyLost, KeyLost, KeyUnavailable, StaleState, StoreUnavailable, UploadRefused
from millrace.model.message import Draft, Message, StoredBody
from millrace.model.queue_spec import Idempotency, Jitter, QueueSpec, RetryPolicy
from millrace.stores.interface import Unknown, WriteResult
from millrace.stores.memory.queue import MemoryStore
from tests.conftest import Bench
from tests.engine.steps import only
from tests.engine.test_erase import traces

KEY = "alias/shop-{tenant}"
MARK = "the-mark-of-a-body"
SMALL = f'{{"say": "{MARK}"}}'.encode()
PACKED = SMALL + b" " * 2_000
LARGE = random.Random(7).randbytes(INLINE_LIMIT) + MARK.encode()
ONE_RETRY = RetryPolicy(max_attempts=2, initial_backoff_ms=0, max_backoff_ms=0, jitter=Jitter.NONE)


def queue_of(bench: Bench, encrypt: str = KEY, **settings: Any) -> Queue:
    return bench.queue(encrypt=encrypt, delivery=ONE_RETRY, **settings)


def key_of(bench: Bench) -> str:
    return f"alias/shop-{bench.tenant}"


def live(queue: Queue, body: bytes) -> str:
    """Accepted, run, failed, dead, replayed, done: with a state and a result that say the mark."""
    enqueue(queue, Draft(body, idempotency_key=f"k{len(body)}"))
    for _ in range(2):
        held = only(claim(queue, owner="w"))
        seen = read_workflow_state(queue, held.entry)
        write_workflow_state(queue, held.entry, seen.content + f"step {MARK}".encode(), seen.version)
        nack(queue, held.entry, held.message, RunFailure("E", "no"))
    (dead,) = [one for one in list_dead_letters(queue).items if not one.replayed_at]
    again = replay(queue, dead, "job")
    held = only(claim(queue, owner="w"))
    assert body_of(queue, held) == body
    write_workflow_state(queue, held.entry, MARK.encode(), 0)
    assert ack(queue, [held.entry], [f"result {MARK}".encode()]) == [None]
    return again.message_id


@pytest.mark.parametrize("body", [SMALL, PACKED, LARGE], ids=["small", "packed", "large"])
def test_nothing_lies_anywhere_in_plain(bench: Bench, body: bytes) -> None:
    queue = queue_of(bench)
    message_id = live(queue, body)
    found, stored = status(queue, message_id), traces(bench)
    assert bool(found.message.body.blob) == (body is LARGE)
    assert read_result(queue, found.result) == f"result {MARK}".encode()
    assert MARK not in stored
    for plain in (body, zlib.compress(body, PACK_LEVEL), body[:64]):
        assert repr(plain)[2:-1] not in stored


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
def test_the_same_life_of_a_queue_without_a_key_is_found(bench: Bench, body: bytes) -> None:
    """What the test above looks for would be there."""
    live(queue_of(bench, encrypt=""), body)
    assert MARK in traces(bench)


def test_what_was_stored_before_a_queue_had_a_key_is_read_as_it_was(bench: Bench) -> None:
    plain, encrypted = queue_of(bench, encrypt=""), queue_of(bench)
    enqueue(plain, Draft(SMALL))
    enqueue(encrypted, Draft(PACKED))
    first, second = claim(encrypted, owner="w", limit=2).claims
    assert (body_of(encrypted, first), body_of(plain, second)) == (SMALL, PACKED)
    assert (first.message.body.encrypted, second.message.body.encrypted) == (False, True)


def test_no_digest_tells_bodies_apart(bench: Bench) -> None:
    queue = queue_of(bench)
    enqueue_all(queue, [Draft(LARGE), Draft(LARGE), Draft(SMALL), Draft(SMALL)])
    bodies = [held.message.body for held in claim(queue, owner="w", limit=4).claims]
    assert [body.digest for body in bodies] == [b""] * 4
    assert len({body.data or bench.blobs.objects[body.blob] for body in bodies}) == 4


# -- moved and changed ------------------------------------------------------------------------------------------


def two_held(bench: Bench, body: bytes = SMALL) -> tuple[Queue, Claim, Claim]:
    queue = queue_of(bench)
    enqueue_all(queue, [Draft(body), Draft(body[:-1] + b"!")])
    first, second = claim(queue, owner="w", limit=2).claims
    return queue, first, second


@pytest.mark.parametrize("body", [SMALL, LARGE], ids=["small", "large"])
def test_a_body_in_the_place_of_another_is_lost_and_never_read(memory_bench: Bench, body: bytes) -> None:
    queue, first, second = two_held(memory_bench, body)
    swapped = replace(first.message, body=replace(second.message.body))
    with pytest.raises(BodyLost, match="is not the body"):
        queue.runtime.bodies.read(swapped)
    message = first.message
    for elsewhere in (
        replace(message, tenant="other"),
        replace(message, queue="Other"),
        replace(message, nonce=second.message.nonce),
    ):
        with pytest.raises(BodyLost):
            queue.runtime.bodies.read(elsewhere)


def test_a_result_or_a_state_in_the_place_of_a_body_is_not_read(memory_bench: Bench) -> None:
    queue, first, second = two_held(memory_bench)
    write_workflow_state(queue, first.entry, SMALL, 0)
    store = memory_bench.store
    assert isinstance(store, MemoryStore)
    kept = store.workflow_state[first.entry.id].content
    body = replace(first.message.body, data=kept, size=len(SMALL))
    with pytest.raises(BodyLost):
        queue.runtime.bodies.read(replace(first.message, body=body))
    store.workflow_state[second.entry.id] = replace(store.workflow_state[first.entry.id], nonce=second.entry.nonce)
    with pytest.raises(BodyLost, match="is not the state"):
        read_workflow_state(queue, second.entry)


def test_an_older_state_is_not_taken_for_a_newer_one(memory_bench: Bench) -> None:
    queue, first, _ = two_held(memory_bench)
    write_workflow_state(queue, first.entry, b"paid: no", 0)
    store = memory_bench.store
    assert isinstance(store, MemoryStore)
    older = store.workflow_state[first.entry.id]
    write_workflow_state(queue, first.entry, b"paid: yes", 1)
    store.workflow_state[first.entry.id] = replace(older, version=2)
    with pytest.raises(BodyLost):
        read_workflow_state(queue, first.entry)


@pytest.mark.parametrize("changed", [{"packing": ""}, {"packing": "zlib"}, {"size": 3}, {"encrypted": False}], ids=str)
def test_what_tells_how_to_read_a_body_cannot_be_changed(memory_bench: Bench, changed: dict[str, Any]) -> None:
    queue = queue_of(memory_bench)
    enqueue_all(queue, [Draft(PACKED), Draft(SMALL)])
    for held in claim(queue, owner="w", limit=2).claims:
        body = replace(held.message.body, **changed)
        if body != held.message.body:
            with pytest.raises(BodyLost):
                queue.runtime.bodies.read(replace(held.message, body=body))


def test_packed_bytes_are_not_taken_for_a_body_that_came_so(memory_bench: Bench) -> None:
    """With its size and packing changed together it would be whole, and another body than was sent."""
    queue = queue_of(memory_bench)
    enqueue(queue, Draft(PACKED))
    (held,) = claim(queue, owner="w").claims
    body = replace(held.message.body, packing="", size=len(zlib.compress(PACKED, PACK_LEVEL)))
    with pytest.raises(BodyLost, match="is not the body"):
        queue.runtime.bodies.read(replace(held.message, body=body))


# -- without the key --------------------------------------------------------------------------------------------


def test_nothing_is_accepted_while_the_key_cannot_be_used(bench: Bench) -> None:
    queue = queue_of(bench)
    bench.keys.disable(key_of(bench))
    for body in (SMALL, LARGE):
        with pytest.raises(KeyUnavailable, match=key_of(bench)):
            enqueue(queue, Draft(body, idempotency_key="k"))
    assert (claim(queue, owner="w").claims, bench.blobs.objects) == ([], {})
    bench.keys.enable(key_of(bench))
    bench.clock.forward(2_000)
    assert not enqueue(queue, Draft(SMALL, idempotency_key="k")).duplicate
    queue.runtime.credits.give_back()
    assert queue.state(fresh=True).depth == 1


def test_a_deleted_key_forgets_a_tenant_and_no_other(bench: Bench) -> None:
    ours, theirs = queue_of(bench), bench.runtime.queue(f"{bench.tenant}x", queue_of(bench).spec)
    for queue in (ours, theirs):
        enqueue(queue, Draft(SMALL, idempotency_key="k"))
    bench.keys.delete(key_of(bench))
    bench.clock.forward(USE_MS)
    (held,) = claim(ours, owner="w").claims
    with pytest.raises(KeyLost, match="gone"):
        body_of(ours, held)
    with pytest.raises(KeyUnavailable):
        enqueue(ours, Draft(SMALL))
    assert body_of(theirs, only(claim(theirs, owner="w"))) == SMALL
    assert ours.runtime.bodies.is_body_of(held.message, SMALL), "nobody can tell: it counts as the same"
    assert not ours.runtime.bodies.is_body_of(held.message, SMALL + b"!")


def test_a_result_without_its_key_is_none_and_one_that_cannot_be_encrypted_is_not_kept(bench: Bench) -> None:
    queue = queue_of(bench, idempotency=Idempotency(window_seconds=86_400))
    enqueue_all(queue, [Draft(SMALL, idempotency_key="a"), Draft(SMALL, idempotency_key="b")])
    first, second = claim(queue, owner="w", limit=2).claims
    ack(queue, [first.entry], [MARK.encode()])
    bench.clock.forward(USE_MS)
    bench.keys.disable(key_of(bench))
    assert ack(queue, [second.entry], [MARK.encode()]) == [None]
    kept, none = (status(queue, held.entry.id).result for held in (first, second))
    assert status(queue, second.entry.id).status is MessageStatus.DONE
    assert none is None or none.snapshot == b""
    with pytest.raises(KeyUnavailable):
        read_result(queue, kept)
    bench.keys.delete(key_of(bench))
    bench.clock.forward(2_000)
    assert read_result(queue, kept) is None
    assert MARK not in traces(bench)


def test_an_ending_with_writes_is_not_kept_from_happening(bench: Bench) -> None:
    queue = queue_of(bench)
    enqueue(queue, Draft(SMALL))
    (held,) = claim(queue, owner="w").claims
    bench.clock.forward(1_000)
    queue.runtime.encryption = Runtime(bench.store, bench.blobs, clock=bench.clock).encryption  # without KMS
    assert end_with(queue, held.entry, [], MARK.encode())
    assert MARK not in traces(bench)


def test_kms_is_called_once_for_a_thousand_messages(memory_bench: Bench) -> None:
    queue = queue_of(memory_bench)
    for _ in range(25):
        enqueue_all(queue, [Draft(SMALL)] * 100)
    reader = replace(queue, runtime=memory_bench.another_process())
    for _ in range(25):
        for held in claim(reader, owner="w", limit=100).claims:
            assert body_of(reader, held) == SMALL
    assert [verb for verb, _ in memory_bench.keys.calls] == ["generate"] * 3 + ["unwrap"] * 3


# -- repeats ----------------------------------------------------------------------------------------------------


def test_a_repeat_is_known_by_its_key_and_told_from_another_body_by_reading(bench: Bench) -> None:
    queue = queue_of(bench)
    for body in (SMALL, LARGE):
        first = enqueue(queue, Draft(body, idempotency_key=f"k{len(body)}"))
        again = enqueue(queue, Draft(body, idempotency_key=f"k{len(body)}"))
        assert (again.duplicate, again.message_id) == (True, first.message_id)
        assert isinstance(again.existing, Message)
        assert queue.runtime.bodies.is_body_of(again.existing, body)
        assert not queue.runtime.bodies.is_body_of(again.existing, body[:-1] + b"!")


class SilentOnce:
    """A store that does what it is asked and loses the answer, once."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.lost = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put_workflow_state(self, *given: Any) -> WriteResult[Any]:
        outcome: WriteResult[Any] = self._store.put_workflow_state(*given)
        if self.lost:
            return outcome
        self.lost += 1
        return Unknown(StoreUnavailable("lost"))


def test_a_state_whose_answer_was_lost_is_written_by_repeating_it(bench: Bench) -> None:
    """No encryption of a text equals another, so the store alone would take the repeat for somebody else's."""
    queue = queue_of(bench)
    enqueue(queue, Draft(SMALL))
    (held,) = claim(queue, owner="w").claims
    silent: Any = SilentOnce(bench.store)
    shaky = Runtime(silent, bench.blobs, clock=bench.clock, keys=bench.keys).queue(bench.tenant, queue.spec)
    with pytest.raises(StoreUnavailable):
        write_workflow_state(shaky, held.entry, b"step 1", 0)
    assert write_workflow_state(shaky, held.entry, b"step 1", 0).version == 1
    with pytest.raises(StaleState):
        write_workflow_state(shaky, held.entry, b"another step 1", 0)
    assert read_workflow_state(queue, held.entry).content == b"step 1"


def test_an_upload_is_refused(memory_bench: Bench) -> None:
    with pytest.raises(UploadRefused, match="is encrypted"):
        enqueue(queue_of(memory_bench), Draft(b"", stored=StoredBody("_uploads/x", 5, b"h" * 32)))


def test_an_encrypted_queue_has_no_dictionary() -> None:
    assert not QueueSpec("Jobs", encrypt=KEY).shares_dictionary
    assert QueueSpec("Jobs").shares_dictionary
    assert QueueSpec("Jobs", encrypt=KEY).key_of("acme") == "alias/shop-acme"
