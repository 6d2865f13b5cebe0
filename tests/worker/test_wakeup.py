"""Wake-ups: which queues an event names, and that nothing due is left without a worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millrace.engine.operate import pause
from millrace.engine.status import MessageStatus, status
from millrace.model.errors import InvalidField
from millrace.worker import TimeLeft
from millrace.worker.drainer import WakeRequest
from millrace.worker.wakeup import Wakeup, handle_wakeup, read_event, wake_event
from tests.conftest import Bench
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


# -- handling ---------------------------------------------------------------------------------------------------


def test_a_wake_up_for_several_queues_drains_each(rig: DrainerRig) -> None:
    rig.put(1)
    rig.put(2, "Others")
    handle_wakeup(
        rig.drainer, Wakeup((rig.wake_request(), rig.wake_request("Others"), rig.wake_request("Api"))), TimeLeft()
    )
    assert sorted(rig.seen) == [1, 2]


def test_other_queues_get_a_worker_of_their_own_where_one_can_be_called(bench: Bench) -> None:
    called: list[WakeRequest] = []
    rig = DrainerRig(bench, invoke_worker=called.append)
    rig.put(1)
    rig.put(2, "Others")
    handle_wakeup(rig.drainer, Wakeup((rig.wake_request(), rig.wake_request("Others"))), TimeLeft())
    assert (rig.seen, called) == ([1], [rig.wake_request("Others")])


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


def test_an_idle_deployment_costs_one_query(memory_bench: Bench, memory_rig: DrainerRig) -> None:
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
        handle_wakeup(memory_rig.drainer, Wakeup(sweep=True), TimeLeft())
    assert not reads


def test_with_little_time_left_the_sweep_leaves_the_rest_to_the_next(memory_rig: DrainerRig) -> None:
    message_id = memory_rig.put(1)
    handle_wakeup(memory_rig.drainer, Wakeup(sweep=True), TimeLeft(lambda: 5_000))
    assert status(memory_rig.queue(), message_id).status is MessageStatus.READY
