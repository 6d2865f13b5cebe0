"""One schedule: processes that die, do not hear, or are overtaken, on the product's own code."""

from __future__ import annotations

from typing import Any

from millrace.engine.enqueue import enqueue
from millrace.engine.queue import Runtime
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec
from millrace.testing.explore import ONE_BY_ONE
from millrace.testing.explored_world import ExploredWorld
from millrace.testing.schedules import Schedule, ScheduledFault
from millrace.worker.context import RunContext
from millrace.worker.worker import Worker

SPEC = QueueSpec("Jobs")


class Jobs:
    """One message, whose handler notes who runs it."""

    lease_ms = SPEC.lease_ms

    def __init__(self) -> None:
        self.runs: list[tuple[int, int]] = []

    def enqueue(self, runtime: Runtime) -> None:
        enqueue(runtime.queue("t", SPEC), Draft(b"x"))

    def workers(self, runtime: Runtime) -> list[Worker]:
        return [Worker(runtime.queue("t", SPEC), self._run, settings=ONE_BY_ONE)]

    def _run(self, context: RunContext) -> Any:
        self.runs.append((context.attempt, context.version))
        return len(self.runs)


def play(jobs: Jobs, fault: ScheduledFault, call: str) -> ExploredWorld:
    """With this fault when this call first comes."""
    undisturbed = ExploredWorld(jobs, Schedule((), 0))
    assert undisturbed.play()
    for number in range(undisturbed.points):
        jobs.runs.clear()
        world = ExploredWorld(jobs, Schedule([*[0] * number, list(ScheduledFault).index(fault)], 1))
        assert world.play()
        if any(f"{fault} {call}" in line for line in world.trace):
            return world
    raise AssertionError(f"{call} never comes")


def test_without_trouble_one_process_does_it_all() -> None:
    jobs = Jobs()
    world = ExploredWorld(jobs, Schedule((), 0))
    assert world.play()
    assert jobs.runs == [(1, 1)]
    assert world.trace == [f"worker 1  {what}" for what in ("the claim", "the ack", "keeping the result", "counting")]
    assert not world.dead


def test_a_process_that_dies_before_its_ack_is_followed_by_another() -> None:
    jobs = Jobs()
    world = play(jobs, ScheduledFault.DEATH, "the ack")
    assert jobs.runs == [(1, 1), (2, 2)]
    assert world.trace[:3] == ["worker 1  the claim", "worker 1  dies before the ack", "worker 2  the claim"]


def test_an_ack_without_an_answer_is_repeated_by_the_same_process() -> None:
    jobs = Jobs()
    world = play(jobs, ScheduledFault.LOSS, "the ack")
    assert jobs.runs == [(1, 1)]
    assert world.trace.count("worker 1  the ack") == 1
    assert "worker 1  gets no answer to the ack" in world.trace


def test_a_process_that_stands_still_is_overtaken_and_its_ack_changes_nothing() -> None:
    jobs = Jobs()
    world = play(jobs, ScheduledFault.STALL, "the ack")
    assert jobs.runs == [(1, 1), (2, 2)]
    still, taken, on = (
        world.trace.index(line)
        for line in ("worker 1  stands still before the ack", "worker 2  the ack", "worker 1  goes on with the ack")
    )
    assert still < taken < on
    assert [result.version for result in world.store.results.values()] == [2]
