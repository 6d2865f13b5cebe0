"""The sweep over all queues: every queue has its turn, and none can keep the others from theirs."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest

from millrace.aws.functions import EventNotSent
from millrace.model.clock import MINUTE
from millrace.model.errors import StoreUnavailable
from millrace.model.queue_state import QueueState
from millrace.worker import TimeLeft
from millrace.worker import sweeper as sweeper_module
from millrace.worker.drainer import WakeRequest
from millrace.worker.sweeper import LOOK_EVERY, sweep_all
from tests.conftest import Bench
from tests.worker.conftest import put
from tests.worker.rigs import DrainerRig

TENANTS = [f"t{number:02d}" for number in range(12)]


class Deployment:
    """Many tenants' queues with a message each, and how long the sweep of one takes."""

    def __init__(self, bench: Bench, patch: pytest.MonkeyPatch, tenants: list[str], **given: Any) -> None:
        self.bench = bench
        self.rig = DrainerRig(bench, **given)
        self.swept: list[str] = []
        self.takes_ms = 0
        for tenant in tenants:
            put(self.rig.drainer.queue(tenant, "Jobs"), b'{"n": 1}')
        patch.setattr(sweeper_module, "SWEEPERS", 1)
        patch.setattr(sweeper_module, "sweep", self._sweep)

    def _sweep(self, queue: Any) -> None:
        self.bench.clock.forward(self.takes_ms)
        self.swept.append(queue.tenant)

    def sweep(self, time_left: TimeLeft | None = None) -> list[str]:
        """The tenants whose queues were swept, in order."""
        self.swept.clear()
        states = self.bench.store.list_all_queue_states()
        self.left = sweep_all(self.rig.drainer, states, time_left or TimeLeft())
        return list(self.swept)


def test_a_sweep_that_runs_out_of_time_goes_on_where_it_stopped(
    memory_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[WakeRequest] = []
    deployment = Deployment(memory_bench, monkeypatch, TENANTS, invoke_worker=started.append)
    deployment.takes_ms = 8_000
    rounds = [deployment.sweep() for _ in range(5)]
    assert rounds[0] == TENANTS[:5]
    assert rounds[1] == TENANTS[5:10]
    assert rounds[2] == [*TENANTS[10:], *TENANTS[:3]], "and comes round"
    assert [request.tenant for request in started] == list(chain(*rounds)), "workers are started as it goes"
    deployment.takes_ms = 0
    assert deployment.sweep() == [*TENANTS[1:], *TENANTS[:1]]
    assert deployment.sweep() == TENANTS, "a sweep that came to its end leaves no position"


def test_with_little_time_left_nothing_is_begun_and_nothing_forgotten(
    memory_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = Deployment(memory_bench, monkeypatch, TENANTS)
    deployment.takes_ms = 10_000
    assert deployment.sweep() == TENANTS[:4]
    assert deployment.sweep(TimeLeft(lambda: 5_000)) == []
    assert deployment.sweep() == TENANTS[4:8]


def test_a_position_is_written_only_when_a_sweep_could_not_come_round(
    memory_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = Deployment(memory_bench, monkeypatch, TENANTS)
    noted: list[str] = []
    keep = memory_bench.store.set_sweep_position

    def note(name: str, position: str) -> None:
        noted.append(position)
        keep(name, position)

    monkeypatch.setattr(memory_bench.store, "set_sweep_position", note)
    for takes_ms in (0, 0, 4_000, 0, 0):
        deployment.takes_ms = takes_ms
        deployment.sweep()
    assert noted == ["t09#Jobs", ""]


def test_a_queue_that_was_deleted_leaves_the_position_good(
    memory_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = Deployment(memory_bench, monkeypatch, TENANTS)
    memory_bench.store.set_sweep_position("sweep", "t03x#Gone")
    assert deployment.sweep() == [*TENANTS[4:], *TENANTS[:4]]


def test_a_position_that_cannot_be_read_or_written_keeps_no_queue_from_its_sweep(
    memory_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment = Deployment(memory_bench, monkeypatch, TENANTS)

    def fail(*_given: Any) -> Any:
        raise StoreUnavailable("no answer")

    monkeypatch.setattr(memory_bench.store, "get_sweep_position", fail)
    monkeypatch.setattr(memory_bench.store, "set_sweep_position", fail)
    assert deployment.sweep() == TENANTS
    deployment.takes_ms = 10_000
    assert deployment.sweep() == TENANTS[:4]


@pytest.mark.parametrize("error", [StoreUnavailable("no answer"), KeyError("a fault of ours")])
def test_a_queue_that_cannot_be_swept_or_started_keeps_no_other_from_its_turn(
    memory_bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def invoke(request: WakeRequest) -> None:
        if request.tenant == "t04":
            raise EventNotSent("worker: TooManyRequestsException")

    deployment = Deployment(memory_bench, monkeypatch, TENANTS, invoke_worker=invoke)

    def sweep(queue: Any) -> None:
        if queue.tenant == "t02":
            raise error
        deployment.swept.append(queue.tenant)

    monkeypatch.setattr(sweeper_module, "sweep", sweep)
    assert deployment.sweep() == [tenant for tenant in TENANTS if tenant != "t02"]
    assert deployment.left == [WakeRequest("t04", "Jobs")], "drained by whoever sweeps"


def test_a_queue_whose_counter_says_0_is_looked_at_once_in_ten_minutes(
    memory_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counter may stand too low: it was repaired by a count that missed an entry on its way between lanes."""
    started: list[WakeRequest] = []
    deployment = Deployment(memory_bench, monkeypatch, TENANTS, invoke_worker=started.append)
    states: dict[tuple[str, str], QueueState] = memory_bench.store.states  # type: ignore[attr-defined]
    for tenant, queue in list(states):
        states[tenant, queue] = QueueState(tenant, queue, listed=True)
    looked = [0] * LOOK_EVERY
    memory_bench.clock.now = memory_bench.clock.now // (LOOK_EVERY * MINUTE) * LOOK_EVERY * MINUTE
    for minute in range(LOOK_EVERY):
        looked[minute] = len(deployment.sweep())
        memory_bench.clock.forward(MINUTE)
    assert sum(looked) == len(TENANTS)
    assert max(looked) < len(TENANTS), "not all in one minute"
    assert sorted(request.tenant for request in started) == TENANTS
