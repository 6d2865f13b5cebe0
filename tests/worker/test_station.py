"""Wake-ups, slots and sweeps: who works on a queue, and that nobody sleeps while something is due."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from millrace.definitions import TargetKind
from millrace.engine.operate import pause
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.model.errors import InvalidField
from millrace.worker import Commands
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.slots import slot_count, take_slot
from millrace.worker.time_left import TimeLeft
from millrace.worker.wakeup import Wakeup, handle_wakeup, read_event, wake_event
from tests.conftest import Bench
from tests.worker.conftest import AT_ONCE, put
from tests.worker.definitions import TYPE, compiled

EVENTS = Path(__file__).parents[2] / "events"
QUEUES = f"""
queue Jobs {{ {TYPE}  max_concurrency: 10  map_to: command Thing.Do {{ n: n }} }}
queue Others {{ {TYPE}  map_to: command Thing.Do {{ n: n }} }}
queue Api {{ {TYPE}  drained_by: api }}
"""


class Yard:
    """A station whose commands note what they were given."""

    def __init__(self, bench: Bench, **given: Any) -> None:
        self.tenant = bench.tenant
        self.seen: list[int] = []
        self.before: Any = lambda n: None
        commands = Commands()
        commands.command("Thing.Do")(self._do)
        deliveries = {TargetKind.COMMAND: commands.deliver}
        self.drainer = QueueDrainer(bench.another_process(), compiled(QUEUES), deliveries, AT_ONCE, **given)  # type: ignore[arg-type]

    def _do(self, given: dict[str, int]) -> None:
        self.before(given["n"])
        self.seen.append(given["n"])

    def queue(self, name: str = "Jobs") -> Queue:
        return self.drainer.queue(self.tenant, name)

    def put(self, n: int, name: str = "Jobs", **fields: Any) -> str:
        return put(self.queue(name), json.dumps({"n": n}).encode(), **fields).message_id

    def wake_request(self, name: str = "Jobs", **fields: Any) -> WakeRequest:
        return WakeRequest(self.tenant, name, **fields)


@pytest.fixture
def yard(bench: Bench) -> Yard:
    return Yard(bench)


# -- events -----------------------------------------------------------------------------------------------------
def sample(name: str) -> dict[str, Any]:
    return json.loads((EVENTS / name).read_text())  # type: ignore[no-any-return]


def test_many_stream_records_of_one_queue_are_one_drain() -> None:
    event = sample("worker-stream.json")
    event["Records"] *= 50
    assert read_event(event) == Wakeup((WakeRequest("default", "WebhookIngress"),))


def test_only_entries_that_appeared_wake() -> None:
    record = sample("worker-stream.json")["Records"][0]
    keys = record["dynamodb"]["Keys"]
    changed = {**record, "eventName": "MODIFY"}
    message = {**record, "dynamodb": {"Keys": {"pk": {"S": "M#abc"}, "sk": {"S": "M"}}}}
    waiting = {**record, "dynamodb": {"Keys": {**keys, "sk": {"S": "W#0000000000001#x"}}}}
    assert read_event({"Records": [changed, message, {}]}) == Wakeup()
    assert read_event({"Records": [waiting]}) == Wakeup((WakeRequest("default", "WebhookIngress"),))


def test_the_schedule_asks_for_a_sweep() -> None:
    assert read_event(sample("worker-schedule.json")) == Wakeup(sweep=True)


def test_a_call_names_one_queue_and_can_be_read_back() -> None:
    assert read_event(sample("worker-queue.json")) == Wakeup((WakeRequest("default", "WebhookIngress"),))
    wake_request = WakeRequest("t", "Q", 3, fanned=True)
    assert read_event(wake_event(wake_request)) == Wakeup((wake_request,))


@pytest.mark.parametrize("event", [{}, {"tenant": "t"}, {"queue": "Q"}, {"tenant": 1, "queue": 2}])
def test_an_event_that_asks_for_nothing_known_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(InvalidField):
        read_event(event)


# -- slots ------------------------------------------------------------------------------------------------------
def test_slots_together_hold_the_queues_concurrency(yard: Yard) -> None:
    queue = yard.queue()
    assert slot_count(queue, 4) == 3
    held = [take_slot(queue, 4) for _ in range(4)]
    assert [slot and slot.concurrency for slot in held] == [4, 4, 2, None]
    assert held[1] is not None
    held[1].free()
    again = take_slot(queue, 4, first=2)
    assert again is not None
    assert (again.slot.number, again.concurrency) == (1, 4)


def test_a_kept_slot_outlives_its_lease_and_a_forgotten_one_does_not(bench: Bench, yard: Yard) -> None:
    queue = yard.queue("Others")
    kept = take_slot(queue, 10)
    assert kept is not None
    for _ in range(5):
        bench.clock.forward(20_000)
        assert kept.renew()
        assert take_slot(queue, 10) is None
    bench.clock.forward(31_000)
    assert take_slot(queue, 10) is not None
    assert not kept.renew()


def test_without_a_free_slot_a_worker_goes_away(bench: Bench, yard: Yard) -> None:
    message_id = yard.put(1)
    held = [take_slot(yard.queue(), 4) for _ in range(3)]
    assert yard.drainer.drain(yard.wake_request(), TimeLeft()) is None
    assert status(yard.queue(), message_id).status is MessageStatus.READY
    assert held[0] is not None
    held[0].free()
    yard.drainer.drain(yard.wake_request(), TimeLeft())
    assert yard.seen == [1]


def test_the_slot_is_free_again_afterwards(yard: Yard) -> None:
    for n in range(3):
        yard.put(n)
        yard.drainer.drain(yard.wake_request(), TimeLeft())
    slots = [take_slot(yard.queue(), 4) for _ in range(3)]
    assert all(slots)
    assert yard.seen == [0, 1, 2]


def test_a_message_that_found_no_free_slot_is_seen_by_the_last_look(bench: Bench) -> None:
    """It comes after the worker's last poll, and the worker it woke finds every slot taken."""
    yard = Yard(bench)
    others = [take_slot(yard.queue(), 4, first=1) for _ in range(2)]
    yard.put(1)
    free, late = bench.store.free_slot, []

    def free_late(tenant: str, queue: str, slot: Any) -> None:
        if not late:
            late.append(1)
            yard.put(2)
            assert Yard(bench).drainer.drain(yard.wake_request(), TimeLeft()) is None
        free(tenant, queue, slot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.store, "free_slot", free_late)
        yard.drainer.drain(yard.wake_request(), TimeLeft())
    assert yard.seen == [1, 2]
    assert all(others)


# -- fan-out ----------------------------------------------------------------------------------------------------
def test_a_deep_queue_calls_more_workers_up_to_its_slots(bench: Bench) -> None:
    called: list[WakeRequest] = []
    yard = Yard(bench, invoke_worker=called.append)
    for n in range(50):
        yard.put(n)
    yard.drainer.drain(yard.wake_request(), TimeLeft())
    assert called == [yard.wake_request(slot=1, fanned=True), yard.wake_request(slot=2, fanned=True)]
    assert len(yard.seen) == 50


def test_a_shallow_queue_and_a_called_worker_call_nobody(bench: Bench) -> None:
    called: list[WakeRequest] = []
    yard = Yard(bench, invoke_worker=called.append)
    yard.put(1)
    yard.drainer.drain(yard.wake_request(), TimeLeft())
    for n in range(50):
        yard.put(n)
    yard.drainer.drain(yard.wake_request(fanned=True), TimeLeft())
    assert not called


# -- attend -----------------------------------------------------------------------------------------------------
def test_a_wake_up_for_several_queues_drains_each(yard: Yard) -> None:
    yard.put(1)
    yard.put(2, "Others")
    handle_wakeup(
        yard.drainer, Wakeup((yard.wake_request(), yard.wake_request("Others"), yard.wake_request("Api"))), TimeLeft()
    )
    assert sorted(yard.seen) == [1, 2]


def test_other_queues_get_a_worker_of_their_own_where_one_can_be_called(bench: Bench) -> None:
    called: list[WakeRequest] = []
    yard = Yard(bench, invoke_worker=called.append)
    yard.put(1)
    yard.put(2, "Others")
    handle_wakeup(yard.drainer, Wakeup((yard.wake_request(), yard.wake_request("Others"))), TimeLeft())
    assert (yard.seen, called) == ([1], [yard.wake_request("Others")])


def test_a_queue_that_is_not_defined_is_passed_over(yard: Yard) -> None:
    assert handle_wakeup(yard.drainer, Wakeup((yard.wake_request("Gone"),)), TimeLeft()) == []


def test_the_sweep_finds_what_nobody_was_woken_for(memory_yard: Yard) -> None:
    memory_yard.put(1)
    memory_yard.put(2, "Others")
    memory_yard.put(3, "Api")
    handle_wakeup(memory_yard.drainer, Wakeup(sweep=True), TimeLeft())
    assert sorted(memory_yard.seen) == [1, 2]


def test_the_sweep_looks_after_paused_queues_and_starts_nothing(memory_bench: Bench, memory_yard: Yard) -> None:
    old = memory_yard.put(1)
    pause(memory_yard.queue(), "operator")
    memory_bench.clock.forward(5 * 86_400_000)
    handle_wakeup(memory_yard.drainer, Wakeup(sweep=True), TimeLeft())
    assert memory_yard.seen == []
    assert status(memory_yard.queue(), old).status is MessageStatus.DEAD


def test_an_idle_deployment_costs_one_query(memory_bench: Bench, memory_yard: Yard) -> None:
    memory_yard.put(1)
    handle_wakeup(memory_yard.drainer, Wakeup(sweep=True), TimeLeft())
    memory_yard.drainer.runtime.credits.give_back()
    reads: list[str] = []
    real = memory_bench.store.read_lane

    def counted(*given: Any) -> Any:
        reads.append(given[0])
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_bench.store, "read_lane", counted)
        handle_wakeup(memory_yard.drainer, Wakeup(sweep=True), TimeLeft())
    assert not reads


def test_with_little_time_left_the_sweep_leaves_the_rest_to_the_next(memory_yard: Yard) -> None:
    message_id = memory_yard.put(1)
    handle_wakeup(memory_yard.drainer, Wakeup(sweep=True), TimeLeft(lambda: 5_000))
    assert status(memory_yard.queue(), message_id).status is MessageStatus.READY


def test_two_workers_on_one_queue_run_each_message_once(bench: Bench) -> None:
    one, two = Yard(bench), Yard(bench)
    for n in range(60):
        one.put(n)
    threads = [
        threading.Thread(target=yard.drainer.drain, args=(yard.wake_request(slot=slot), TimeLeft()))
        for slot, yard in enumerate((one, two))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.seen + two.seen) == list(range(60))


@pytest.fixture
def memory_bench(memory_store, clock, tenant) -> Bench:  # type: ignore[no-untyped-def]
    return Bench(memory_store, clock, tenant)


@pytest.fixture
def memory_yard(memory_bench: Bench) -> Yard:
    return Yard(memory_bench)
