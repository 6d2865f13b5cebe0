"""Dictionaries are read when they are first needed, once; a sender does without, a reader cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.engine.claim import body_of, claim
from millrace.engine.dead_letters import list_dead_letters, replay
from millrace.engine.dictionaries import ASK_AGAIN_MS, KEPT, Dictionaries
from millrace.engine.dictionary_review import publish
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import RunFailure, reject
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import status
from millrace.model.dictionary import USE_MS, Dictionary, StoredDictionary
from millrace.model.errors import BodyLost, DictionaryLost, StoreUnavailable
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec, Retention
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.conftest import Clock

BODY = b"".join(b'{"number":%d,"words":"the same as ever"},' % n for n in range(60))
FIRST, SECOND = Dictionary(b'"words":"the same'), Dictionary(b'as ever"},{"number":')


class CountingStore(MemoryStore):
    """Counts the reads of dictionaries; may be out of reach."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.reads = 0
        self.silent = False

    def get_dictionary(self, tenant: str, queue: str, name: str) -> StoredDictionary | None:
        self.reads += 1
        if self.silent:
            raise StoreUnavailable("silent")
        return super().get_dictionary(tenant, queue, name)


@pytest.fixture
def store(clock: Clock) -> CountingStore:
    return CountingStore(clock)


def process(store: MemoryStore, clock: Clock) -> Queue:
    """The queue as a process of its own sees it."""
    spec = QueueSpec("Jobs", retention=Retention(max_age_seconds=365 * 86_400))
    return Runtime(store, MemoryBlobs(), clock=clock).queue("t", spec)


def sent(queue: Queue, key: str | None = None) -> str:
    """The dictionary that a body is packed with."""
    return status(queue, enqueue(queue, Draft(BODY, idempotency_key=key)).message_id).message.body.dictionary


def test_a_queue_without_a_dictionary_reads_none(store: CountingStore, clock: Clock) -> None:
    assert sent(process(store, clock)) == ""
    assert store.reads == 0


def test_each_process_reads_a_dictionary_once(store: CountingStore, clock: Clock) -> None:
    sender, worker = process(store, clock), process(store, clock)
    assert publish(sender, sender.state(), FIRST)
    enqueue_all(sender, [Draft(BODY) for _ in range(9)])
    assert sent(sender) == FIRST.name
    assert store.reads == 1
    for held in claim(worker, owner="w", limit=10).claims:
        assert body_of(worker, held) == BODY
    assert store.reads == 2


def test_a_queue_that_wants_none_packs_each_body_by_itself(store: CountingStore, clock: Clock) -> None:
    queue = process(store, clock)
    publish(queue, queue.state(), FIRST)
    without = queue.runtime.queue("t", replace(queue.spec, dictionary=False))
    assert (sent(without), store.reads) == ("", 0)
    assert sent(queue) == FIRST.name


def test_what_is_too_small_to_be_packed_reads_none(store: CountingStore, clock: Clock) -> None:
    queue = process(store, clock)
    publish(queue, queue.state(), FIRST)
    enqueue(queue, Draft(b"small"))
    assert store.reads == 0


def test_old_bodies_are_read_by_the_dictionary_that_packed_them(store: CountingStore, clock: Clock) -> None:
    queue = process(store, clock)
    for dictionary in (FIRST, SECOND):
        publish(queue, queue.state(fresh=True), dictionary)
        clock.forward(3 * 60_000)
        assert sent(queue) == dictionary.name
    other = process(store, clock)
    assert [body_of(other, held) for held in claim(other, owner="w", limit=5).claims] == [BODY, BODY]


def test_a_sender_does_without_a_dictionary_that_it_cannot_have(store: CountingStore, clock: Clock) -> None:
    queue = process(store, clock)
    publish(queue, queue.state(), FIRST)
    store.silent = True
    assert [sent(queue), sent(queue)] == ["", ""]
    assert store.reads == 1, "it does not ask for every message"
    store.silent = False
    clock.forward(ASK_AGAIN_MS)
    assert sent(queue) == FIRST.name


def test_a_sender_packs_with_it_until_the_end_of_its_use(store: CountingStore, clock: Clock) -> None:
    queue = process(store, clock)
    publish(queue, queue.state(), FIRST)
    clock.forward(USE_MS - 1)
    assert sent(queue) == FIRST.name
    clock.forward(1)
    assert [sent(queue), sent(queue)] == ["", ""]
    assert store.reads == 2
    publish(process(store, clock), queue.state(fresh=True), FIRST)
    clock.forward(ASK_AGAIN_MS)
    assert sent(queue) == FIRST.name
    other = process(store, clock)
    assert {body_of(other, held) for held in claim(other, owner="w", limit=9).claims} == {BODY}


def test_a_missing_dictionary_is_named_and_the_packed_body_stays(store: CountingStore, clock: Clock) -> None:
    queue = process(store, clock)
    publish(queue, queue.state(), FIRST)
    sent(queue)
    (kept,) = store.dictionaries.items()
    store.dictionaries.clear()
    reader = process(store, clock)
    (held,) = claim(reader, owner="w").claims
    with pytest.raises(DictionaryLost, match=FIRST.name) as lost:
        body_of(reader, held)
    assert isinstance(lost.value, BodyLost)
    reject(reader, held.entry, held.message, RunFailure("BodyLost", str(lost.value)))
    store.dictionaries.update([kept])
    (dead_letter,) = list_dead_letters(reader).items
    receipt = replay(reader, dead_letter, "job")
    assert reader.runtime.bodies.read(status(reader, receipt.message_id).message) == BODY


def test_what_is_not_what_its_name_says_is_lost(store: CountingStore, clock: Clock) -> None:
    queue = process(store, clock)
    publish(queue, queue.state(), FIRST)
    sent(queue)
    store.dictionaries["t", "Jobs", FIRST.name] = StoredDictionary(FIRST.name, SECOND.stored(0).data, 0)
    reader = process(store, clock)
    (held,) = claim(reader, owner="w").claims
    with pytest.raises(DictionaryLost):
        body_of(reader, held)


def test_nobody_can_tell_while_the_table_is_silent(store: CountingStore, clock: Clock) -> None:
    queue = process(store, clock)
    publish(queue, queue.state(), FIRST)
    sent(queue)
    reader = process(store, clock)
    (held,) = claim(reader, owner="w").claims
    store.silent = True
    with pytest.raises(StoreUnavailable):
        body_of(reader, held)
    store.silent = False
    assert body_of(reader, held) == BODY


def test_a_repeat_with_another_body_is_told_without_reading(store: CountingStore, clock: Clock) -> None:
    queue = process(store, clock)
    publish(queue, queue.state(), FIRST)
    sent(queue, key="k")
    store.silent = True
    other = process(store, clock)
    known = enqueue(other, Draft(BODY, idempotency_key="k")).existing
    assert known is not None
    assert other.runtime.bodies.is_body_of(known, BODY)
    assert not other.runtime.bodies.is_body_of(known, BODY[:-1] + b"!")


def test_a_process_keeps_so_many(clock: Clock) -> None:
    store = CountingStore(clock)
    dictionaries = Dictionaries(store, clock)
    names = []
    for number in range(KEPT + 1):
        made = Dictionary(b"%d" % number)
        store.put_dictionary("t", "Jobs", made.stored(clock() + USE_MS))
        names.append(made.name)
        assert dictionaries.to_unpack("t", "Jobs", made.name).name == made.name
    dictionaries.to_unpack("t", "Jobs", names[-1])
    assert store.reads == KEPT + 1
    dictionaries.to_unpack("t", "Jobs", names[0])
    assert store.reads == KEPT + 2
