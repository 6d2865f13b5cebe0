"""Long polls: one reader for all who wait, the first message to one of them at once, and nothing lost on the way."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

from millrace.engine.claim import Claimed
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack
from millrace.engine.operate import pause
from millrace.engine.poll import Filter
from millrace.engine.queue import Queue, Runtime
from millrace.http.problems import TooManyWaiting
from millrace.model.cursor import Page
from millrace.model.errors import StoreUnavailable
from millrace.model.message import Draft, Entry
from millrace.model.queue_spec import QueueSpec
from millrace.pull.dispatcher import LONE, SHARED, Demand, Dispatcher
from millrace.pull.waiting_places import ProcessPlaces
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.pull.virtual_time import PATIENCE, VirtualTime

READS = frozenset({"read_lane", "get_entry", "get_messages", "get_queue_state", "get_records", "get_location"})


class Counting(MemoryStore):
    """Counts what the table is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.broken = False
        self.gate: threading.Event | None = None  #: a lane is read only once this is set
        self.entered = threading.Event()

    def read_lane(self, pk: str, after: str, upto: str, limit: int) -> Page[Entry]:
        if self.gate is not None:
            self.entered.set()
            assert self.gate.wait(PATIENCE)
        return super().read_lane(pk, after, upto, limit)

    def __getattribute__(self, name: str) -> Any:
        if name in READS:
            if self.broken:
                raise StoreUnavailable("down")
            self.calls[name] += 1
        return super().__getattribute__(name)

    def reads(self) -> int:
        return sum(self.calls[name] for name in READS)


class Room:
    """Consumers of one queue in threads, time in the test's hand."""

    def __init__(self, time: VirtualTime, dispatcher: Dispatcher, **settings: Any) -> None:
        self.time = time
        self.store = Counting()
        self.dispatcher = dispatcher
        runtime = Runtime(self.store, MemoryBlobs(), clock=time, chance=lambda: 0.5)
        self.queue = runtime.queue("t", QueueSpec("Jobs", **settings))
        self.elsewhere = Runtime(self.store, MemoryBlobs(), clock=time, chance=lambda: 0.5).queue("t", self.queue.spec)
        self.pool = ThreadPoolExecutor(250)

    def wait(self, wait_ms: int = 20_000, **demand: Any) -> Future[Claimed]:
        asked = Demand(**{"owner": "w", **demand})
        before = self.time.asleep()
        future = self.pool.submit(self.dispatcher.take, self.queue, asked, wait_ms)
        self.time.settle_or_end(future, before + 1)
        return future

    def put(self, body: bytes = b"1", queue: Queue | None = None, **options: Any) -> str:
        return enqueue(queue or self.queue, Draft(body, **options)).message_id

    def notify(self) -> None:
        self.dispatcher.notify("t", "Jobs")


@pytest.fixture
def time() -> VirtualTime:
    return VirtualTime()


@pytest.fixture
def room(time: VirtualTime) -> Iterator[Room]:
    made = Room(time, Dispatcher(schedule=SHARED, condition=time.condition))
    yield made
    made.time.forward(60_000)
    made.pool.shutdown()


def result(future: Future[Claimed]) -> list[str]:
    return [held.message.id for held in future.result(PATIENCE).claims]


def test_two_hundred_waiting_consumers_cost_one_read_a_second(time: VirtualTime) -> None:
    room = Room(time, Dispatcher(schedule=SHARED, places=ProcessPlaces(200, 200), condition=time.condition))
    futures = [room.wait() for _ in range(200)]
    assert room.store.reads() == 1
    for second in range(1, 20):
        time.forward(1_000)
        time.settle(200)
        assert room.store.reads() <= 1 + second
    assert room.dispatcher.waiting("t", "Jobs") == 200
    before = time.now
    message_id = room.put()
    room.notify()
    done, _ = wait(futures, PATIENCE, FIRST_COMPLETED)
    assert [result(future) for future in done] == [[message_id]]
    assert time.now == before, "no time passed between the message and its delivery"
    time.settle(199)
    assert sum(future.done() for future in futures) == 1
    time.forward(60_000)
    room.pool.shutdown()


def test_while_one_reads_nobody_else_does(room: Room, time: VirtualTime) -> None:
    room.wait()
    room.store.gate = threading.Event()
    reads = room.store.reads()
    time.forward(1_000)
    assert room.store.entered.wait(PATIENCE)
    for _ in range(3):
        room.wait()
    assert room.store.reads() == reads + 1
    room.store.gate.set()
    time.settle(4)


def test_consumers_that_come_and_go_on_an_idle_queue_cost_no_more(room: Room, time: VirtualTime) -> None:
    """Each leaves after its own wait and another comes: arrivals read nothing while the queue is known to be idle."""
    for _ in range(30):
        futures = [room.wait(wait_ms=100) for _ in range(20)]
        time.forward(100)
        assert [result(future) for future in futures] == [[]] * 20
    assert room.store.reads() <= 1 + 3


def test_a_message_of_another_process_comes_within_a_second(room: Room, time: VirtualTime) -> None:
    future = room.wait()
    message_id = room.put(queue=room.elsewhere)
    time.forward(1_000)
    assert result(future) == [message_id]


def test_every_shard_of_a_wide_queue_is_looked_at_in_turn(time: VirtualTime) -> None:
    room = Room(time, Dispatcher(schedule=SHARED, condition=time.condition), shards=4)
    future = room.wait()
    message_id = room.put(queue=room.elsewhere)
    before = room.store.reads()
    for _ in range(4):
        if not time.settle_or_end(future):
            time.forward(1_000)
    assert result(future) == [message_id]
    assert room.store.reads() - before <= 4 + 3 * 4 + 2
    room.pool.shutdown()


def test_a_delayed_message_is_handed_out_when_it_is_due(room: Room, time: VirtualTime) -> None:
    future = room.wait()
    message_id = room.put(queue=room.elsewhere, not_before=time.now + 1_300)
    time.forward(1_000)
    time.settle(1)
    time.forward(299)
    time.settle(1)
    assert not future.done()
    time.forward(1)
    assert result(future) == [message_id]


def test_who_waits_longest_is_served_first_and_leads_on(room: Room, time: VirtualTime) -> None:
    futures = [room.wait() for _ in range(3)]
    for number in range(3):
        message_id = room.put()
        room.notify()
        assert result(futures[number]) == [message_id]
        time.settle(2 - number)


def test_one_notification_serves_everybody_there_is_something_for(room: Room, time: VirtualTime) -> None:
    futures = [room.wait() for _ in range(5)]
    ids = {room.put(str(n).encode()) for n in range(5)}
    room.notify()
    assert {result(future)[0] for future in futures} == ids


def test_a_consumer_with_another_filter_is_not_held_up_by_the_first(room: Room, time: VirtualTime) -> None:
    picky = room.wait(only=Filter(project="none"))
    plain = room.wait()
    message_id = room.put(project="some")
    room.notify()
    assert result(plain) == [message_id]
    time.settle(1)
    time.forward(20_000)
    assert result(picky) == []


def test_a_claim_that_runs_out_comes_to_who_waits(room: Room, time: VirtualTime) -> None:
    message_id = room.put()
    first = room.dispatcher.take(room.queue, Demand("dies", lease_ms=5_000), 0)
    assert len(first.claims) == 1
    future = room.wait()
    for _ in range(5):
        if not time.settle_or_end(future):
            time.forward(1_000)
    assert result(future) == [message_id]


def test_nobody_gets_anything_while_the_queue_is_paused(room: Room, time: VirtualTime) -> None:
    room.put()
    pause(room.queue, "op")
    future = room.wait(wait_ms=3_000)
    for _ in range(80):
        if not time.settle_or_end(future):
            time.forward(50)
    assert result(future) == []


def test_the_cap_refuses_with_a_time_to_come_back(time: VirtualTime) -> None:
    room = Room(time, Dispatcher(schedule=SHARED, places=ProcessPlaces(3), condition=time.condition))
    futures = [room.wait() for _ in range(3)]
    for future in futures:
        time.settle_or_end(future)
    with pytest.raises(TooManyWaiting) as refused:
        room.dispatcher.take(room.queue, Demand("w"), 1_000)
    assert refused.value.retry_after > 0
    time.forward(20_000)
    assert [result(future) for future in futures] == [[]] * 3
    future = room.wait()
    time.forward(20_000)
    assert result(future) == []
    room.pool.shutdown()


def test_a_table_that_does_not_answer_fails_who_looks_and_nobody_hangs(room: Room, time: VirtualTime) -> None:
    first, second = room.wait(), room.wait()
    room.store.broken = True
    time.forward(1_000)
    with pytest.raises(StoreUnavailable):
        first.result(PATIENCE)
    room.store.broken = False
    time.settle(1)
    message_id = room.put()
    room.notify()
    assert result(second) == [message_id]


def test_a_lone_instance_looks_soon_and_then_ever_less(time: VirtualTime) -> None:
    room = Room(time, Dispatcher(schedule=LONE, condition=time.condition))
    future = room.wait(wait_ms=4_000)
    looks = []
    for _ in range(40):
        if time.settle_or_end(future):
            break
        before = room.store.reads()
        time.forward(100)
        time.settle_or_end(future)
        if room.store.reads() > before:
            looks.append(time.now - 1_800_000_000_000)
    assert result(future) == []
    assert looks == [200, 600, 1_400, 2_400, 3_400]
    room.pool.shutdown()


def test_under_a_crowd_each_message_is_handed_out_once(room: Room, time: VirtualTime) -> None:
    futures = [room.pool.submit(_drain, room) for _ in range(20)]
    ids = []
    for number in range(300):
        ids.append(room.put(str(number).encode()))
        room.notify()
    ended: list[str] = []
    for future in futures:
        while not future.done():
            time.forward(1_000)
            threading.Event().wait(0.002)
        ended += future.result(PATIENCE)
    assert sorted(ended) == sorted(ids)


def _drain(room: Room) -> list[str]:
    done: list[str] = []
    while True:
        claimed = room.dispatcher.take(room.queue, Demand("w", limit=3, lease_ms=10**7), 20_000)
        if not claimed.claims:
            return done
        assert ack(room.queue, [held.entry for held in claimed.claims]) == [None] * len(claimed.claims)
        done += [held.message.id for held in claimed.claims]
