"""Wake-ups: which queues an event names, and that nothing due is left without a worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millrace.aws.functions import EventNotSent
from millrace.engine.operate import pause
from millrace.engine.status import MessageStatus, status
from millrace.model.clock import MINUTE
from millrace.model.errors import InvalidField
from millrace.worker import TimeLeft
from millrace.worker.drainer import WakeRequest
from millrace.worker.slots import SLOT_LEASE_MS, take_slot
from millrace.worker.sweeper import LOOK_EVERY
from millrace.worker.wakeup import Wakeup, handle_wakeup, read_event, wake_event
from tests.conftest import Bench
from tests.worker.conftest import AT_ONCE
from tests.worker.definitions import TYPE, compiled
from tests.worker.rigs import DrainerRig

EVENTS = Path(__file__).parents[2] / "events"


@pytest.fixture
def rig(bench: Bench) -> DrainerRig:
    return DrainerRig(bench)


@pytest.fixture
def memory_rig(memory_bench: Bench) -> DrainerRig:
    return DrainerRig(memory_bench)


# -- events -----------------------------------------------------------------------------------------------------


def sample(name: str) -> dict[str, Any]:
    return json.loads((EVENTS / name).read_text())  # type: ignore[no-any-return]


def test_many_stream_records_of_one_queue_are_one_drain() -> None:
    event = sample("worker-stream.json")
    event["Records"] *= 50
    assert read_event(event) == Wakeup((WakeRequest("default", "WebhookIngress"),), stream=True)


def test_only_entries_that_appeared_wake() -> None:
    record = sample("worker-stream.json")["Records"][0]
    keys = record["dynamodb"]["Keys"]
    changed = {**record, "eventName": "MODIFY"}
    message = {**record, "dynamodb": {"Keys": {"pk": {"S": "M#abc"}, "sk": {"S": "M"}}}}
    waiting = {**record, "dynamodb": {"Keys": {**keys, "sk": {"S": "W#0000000000001#x"}}}}
    assert read_event({"Records": [changed, message, {}]}) == Wakeup(stream=True)
    assert read_event({"Records": [waiting]}) == Wakeup((WakeRequest("default", "WebhookIngress"),), stream=True)


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


# -- handling ---------------------------------------------------------------------------------------------------


def test_a_wake_up_for_several_queues_drains_each(rig: DrainerRig) -> None:
    rig.put(1)
    rig.put(2, "Others")
    handle_wakeup(
        rig.drainer, Wakeup((rig.wake_request(), rig.wake_request("Others"), rig.wake_request("Api"))), TimeLeft()
    )
    assert sorted(rig.seen) == [1, 2]


def test_the_stream_starts_workers_and_drains_nothing_itself(bench: Bench) -> None:
    """A drain would hold the stream's lane, and with it the wake-ups of every other queue in it."""
    called: list[WakeRequest] = []
    rig = DrainerRig(bench, invoke_worker=called.append)
    rig.put(1)
    rig.put(2, "Others")
    wakeup = Wakeup((rig.wake_request(), rig.wake_request("Others"), rig.wake_request("Api")), stream=True)
    assert handle_wakeup(rig.drainer, wakeup, TimeLeft()) == []
    assert rig.seen == []
    assert sorted(called, key=lambda request: request.queue) == [rig.wake_request(), rig.wake_request("Others")]


def test_a_worker_that_was_started_for_a_queue_drains_it_itself(memory_bench: Bench) -> None:
    called: list[WakeRequest] = []
    rig = DrainerRig(memory_bench, invoke_worker=called.append)
    rig.put(1)
    handle_wakeup(rig.drainer, Wakeup((rig.wake_request(),)), TimeLeft())
    assert (rig.seen, called) == ([1], [])


def test_the_stream_starts_no_worker_for_a_queue_without_a_free_slot(memory_bench: Bench) -> None:
    called: list[WakeRequest] = []
    rig = DrainerRig(memory_bench, invoke_worker=called.append)
    held = [take_slot(rig.queue(), AT_ONCE.concurrency) for _ in range(3)]
    assert all(held)
    handle_wakeup(rig.drainer, Wakeup((rig.wake_request(),), stream=True), TimeLeft())
    assert called == []
    memory_bench.clock.forward(SLOT_LEASE_MS)
    handle_wakeup(rig.drainer, Wakeup((rig.wake_request(),), stream=True), TimeLeft())
    assert called == [rig.wake_request()]


@pytest.mark.parametrize("wakeup", ["stream", "sweep"])
def test_a_queue_whose_worker_cannot_be_started_is_drained_here_and_the_others_are_started(
    memory_bench: Bench, wakeup: str, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[WakeRequest] = []

    def invoke(request: WakeRequest) -> None:
        if request.queue == "Jobs":
            raise EventNotSent("worker: TooManyRequestsException")
        called.append(request)

    rig = DrainerRig(memory_bench, invoke_worker=invoke)
    rig.put(1)
    rig.put(2, "Others")
    requests = (rig.wake_request(), rig.wake_request("Others"))
    handle_wakeup(rig.drainer, Wakeup(requests, stream=True) if wakeup == "stream" else Wakeup(sweep=True), TimeLeft())
    assert (rig.seen, called) == ([1], [rig.wake_request("Others")])
    assert [record.action for record in caplog.records if hasattr(record, "action")][:1] == ["invoke_failed"]


def test_a_queue_that_is_not_defined_is_passed_over(rig: DrainerRig) -> None:
    assert handle_wakeup(rig.drainer, Wakeup((rig.wake_request("Gone"),)), TimeLeft()) == []


def test_the_sweep_finds_what_nobody_was_woken_for(memory_rig: DrainerRig) -> None:
    memory_rig.put(1)
    memory_rig.put(2, "Others")
    memory_rig.put(3, "Api")
    handle_wakeup(memory_rig.drainer, Wakeup(sweep=True), TimeLeft())
    assert sorted(memory_rig.seen) == [1, 2]


def test_the_sweep_looks_after_paused_queues_and_starts_nothing(memory_bench: Bench, memory_rig: DrainerRig) -> None:
    old = memory_rig.put(1)
    pause(memory_rig.queue(), "operator")
    memory_bench.clock.forward(5 * 86_400_000)
    handle_wakeup(memory_rig.drainer, Wakeup(sweep=True), TimeLeft())
    assert memory_rig.seen == []
    assert status(memory_rig.queue(), old).status is MessageStatus.DEAD


def test_gauges_come_last_and_their_faults_keep_no_queue_from_being_drained(memory_bench: Bench) -> None:
    done: list[str] = []

    def invoke(request: WakeRequest) -> None:
        done.append(request.queue)
        if request.queue == "Others":
            raise EventNotSent("worker: TooManyRequestsException")

    def gauges(*_given: Any) -> None:
        done.append("gauges")
        raise ValueError("a fault of ours")

    rig = DrainerRig(memory_bench, invoke_worker=invoke)
    rig.put(1)
    rig.put(2, "Others")
    handle_wakeup(rig.drainer, Wakeup(sweep=True), TimeLeft(), after_sweep=gauges)
    assert done[2:] == ["gauges"]
    assert sorted(done[:2]) == ["Jobs", "Others"]
    assert rig.seen == [2], "drained here, since no worker could be started for it"


def test_an_idle_deployment_costs_one_query_and_a_look_in_ten_minutes(
    memory_bench: Bench, memory_rig: DrainerRig
) -> None:
    memory_rig.put(1)
    handle_wakeup(memory_rig.drainer, Wakeup(sweep=True), TimeLeft())
    memory_rig.drainer.runtime.credits.give_back()
    reads: list[str] = []
    real = memory_bench.store.read_lane

    def counted(*given: Any) -> Any:
        reads.append(given[0])
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory_bench.store, "read_lane", counted)
        minutes = []
        for _ in range(LOOK_EVERY):
            reads.clear()
            handle_wakeup(memory_rig.drainer, Wakeup(sweep=True), TimeLeft())
            minutes.append(len(reads))
            memory_bench.clock.forward(MINUTE)
    assert sorted(minutes) == [*[0] * (LOOK_EVERY - 1), 2]


def test_with_little_time_left_the_sweep_leaves_the_rest_to_the_next(memory_rig: DrainerRig) -> None:
    message_id = memory_rig.put(1)
    handle_wakeup(memory_rig.drainer, Wakeup(sweep=True), TimeLeft(lambda: 5_000))
    assert status(memory_rig.queue(), message_id).status is MessageStatus.READY


def test_a_sweep_enqueues_what_schedules_ask_for_and_drains_it(memory_bench: Bench) -> None:
    rig = DrainerRig(memory_bench, default_tenant=memory_bench.tenant)
    rig.drainer.definitions = compiled(
        f"""queue Jobs {{ {TYPE}  map_to: command Thing.Do {{ n: n }} }}
        schedule Minutely {{ cron: "* * * * *"  queue: Jobs  message: {{"n": 7}} }}"""
    )
    for _ in range(3):
        handle_wakeup(rig.drainer, Wakeup(sweep=True), TimeLeft())
        memory_bench.clock.forward(60_000)
    assert rig.seen == [7, 7]
