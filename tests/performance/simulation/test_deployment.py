"""A whole deployment in virtual time: the real wake-ups behind Lambda, the stream and the schedule as AWS has them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from millrace.definitions import TargetKind
from millrace.engine.enqueue import enqueue
from millrace.engine.queue import Queue
from millrace.engine.sweep import sweep
from millrace.model.clock import DAY
from millrace.model.message import Draft
from millrace.worker import Commands, Context, TimeLeft, WorkerSettings
from millrace.worker import sweeper as sweeper_module
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.slots import SLOT_LEASE_MS
from millrace.worker.wakeup import handle_wakeup, read_event, wake_event
from tests.performance.simulation.aws import Function, Invocation, Lambda, Stream, every
from tests.performance.simulation.scenarios import TABLES, TENANT, World, world
from tests.performance.simulation.virtual_time import NOON
from tests.worker.definitions import TYPE, compiled

DEFINITIONS = compiled(f"""
queue Slow {{ {TYPE}  max_concurrency: 1  map_to: command Thing.Do {{ n: n }} }}
queue Quick {{ {TYPE}  map_to: command Thing.Do {{ n: n }} }}
queue Leased {{ {TYPE}  max_concurrency: 10  lease_seconds: 30  map_to: command Thing.Do {{ n: n }} }}
queue Api {{ {TYPE}  drained_by: api }}
""")
LEASE_MS = 30_000
#: What Lambda takes to accept an asynchronous invocation.
INVOKE_MS = 20.0


class Deployment:
    """The worker function, what wakes it, and senders. A message's number is how long its run takes."""

    def __init__(self, one: World, *, lanes: int = 2, shards: int = 4) -> None:
        self.world = one
        self.cloud = Lambda(one.time)
        self.worker = self.cloud.add(Function("worker", self._make))
        self.stream = Stream(one.time, TABLES.queue, self._deliver, shards=shards, lanes=lanes)
        self.sender = QueueDrainer(one.runtime(), DEFINITIONS, {})
        every(one.time, 60, lambda: self.cloud.invoke("worker", {"sweep": True}))

    def _deliver(self, event: dict[str, Any]) -> Any:
        return self.cloud.invoke("worker", event)

    def _make(self) -> Callable[[dict[str, Any], Invocation], Any]:
        """What a cold start builds."""
        commands = Commands()
        commands.command("Thing.Do")(self._run)

        def invoke_worker(request: WakeRequest) -> None:
            self.world.time.sleep_ms(INVOKE_MS)
            self.cloud.invoke_async("worker", wake_event(request))

        deliveries = {TargetKind.COMMAND: commands.deliver}
        drainer = QueueDrainer(
            self.world.runtime(), DEFINITIONS, deliveries, WorkerSettings(), invoke_worker=invoke_worker
        )

        def handler(event: dict[str, Any], context: Invocation) -> Any:
            left = TimeLeft(context.get_remaining_time_in_millis, monotonic=self.world.time.monotonic)
            results = handle_wakeup(drainer, read_event(event), left)
            drainer.runtime.credits.give_back()
            return {"drained": sum(result.counts["started"] for result in results)}

        return handler

    def _run(self, given: dict[str, int], context: Context) -> None:
        self.world.started_at.setdefault(context.message_id, []).append(self.world.time.now)
        self.world.time.sleep_ms(given["n"])
        self.world.done_at[context.message_id] = self.world.time.now

    def send(self, queue: str, run_ms: int, *, at_s: float, tenant: str = TENANT) -> list[str]:
        """Send a message at a time; its id is in the list that is returned once it was accepted."""
        ids: list[str] = []

        def work() -> None:
            body = json.dumps({"n": run_ms}).encode()
            receipt = enqueue(self.sender.queue(tenant, queue), Draft(body))
            self.world.accepted_at[receipt.message_id] = self.world.time.now
            ids.append(receipt.message_id)

        self.world.time.spawn("sender", work, after_ms=NOON + at_s * 1000 - self.world.time.now)
        return ids

    def wait_ms(self, ids: list[str]) -> float:
        """From a message's receipt to its first start."""
        return self.world.started_at[ids[0]][0] - self.world.accepted_at[ids[0]]


@pytest.fixture
def one() -> Iterator[World]:
    with world(seed=7) as made:
        yield made


def test_a_queue_that_drains_for_a_minute_delays_no_other(one: World) -> None:
    """All records come through one lane of the stream, which waits for the invocation that it started."""
    deployment = Deployment(one, shards=1, lanes=1)
    deployment.stream.attach(one.dynamodb)
    slow = [deployment.send("Slow", 1_000, at_s=0) for _ in range(60)]
    quick = [deployment.send("Quick", 5, at_s=at) for at in (5.0, 20.0, 35.0, 50.0)]
    one.time.run(90_000)
    assert max(deployment.wait_ms(ids) for ids in quick) < 1_000
    assert max(one.done_at[ids[0]] for ids in slow) - NOON > 55_000, "the other queue was at work all the time"
    assert deployment.stream.failed == 0
    assert deployment.stream.iterator_age_ms < 1_500


def test_what_a_killed_worker_held_runs_again_and_its_place_is_free(one: World) -> None:
    deployment = Deployment(one)
    deployment.stream.attach(one.dynamodb)
    held = [deployment.send("Leased", 25_000, at_s=0) for _ in range(3)]
    one.time.run(5_000)
    assert deployment.cloud.kill_running("worker") == 1
    killed = one.time.now
    after = deployment.send("Leased", 5, at_s=5 + SLOT_LEASE_MS / 1000)
    one.time.run(120_000)
    assert deployment.wait_ms(after) < 1_000, "the slot is free within its own lease"
    again = [[at for at in one.started_at[ids[0]] if at > killed] for ids in held]
    assert [len(starts) for starts in again] == [1, 1, 1]
    assert max(starts[0] for starts in again) - killed < LEASE_MS + 5_000
    assert all(ids[0] in one.done_at for ids in held)


def test_the_sweep_alone_finds_what_a_killed_worker_held(one: World) -> None:
    deployment = Deployment(one)
    deployment.stream.attach(one.dynamodb)
    held = deployment.send("Leased", 25_000, at_s=0)
    one.time.run(10_000)
    assert deployment.cloud.kill_running("worker") == 1
    one.time.run(52_000)
    assert len(one.started_at[held[0]]) == 2, "with the next minute"


def test_a_sweep_comes_round_to_every_queue_however_many_there_are(one: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 queues that hold something, and a tenth of a sweep's time, stand for 20,000."""
    monkeypatch.setattr(sweeper_module, "SWEEP_MS", sweeper_module.SWEEP_MS // 10)
    swept: list[str] = []

    def note(queue: Queue) -> None:
        swept.append(queue.tenant)
        sweep(queue)

    monkeypatch.setattr(sweeper_module, "sweep", note)
    deployment = Deployment(one)
    last = deployment.send("Quick", 5, at_s=0, tenant="zz-last")  # before the stream is there
    tenants = [f"t{number:04d}" for number in range(2_000)]
    for sender in range(20):
        one.time.spawn("sender", partial(_send_for_later, deployment, tenants[sender::20]))
    one.time.run(50_000)
    rounds = 0
    while len(set(swept)) <= len(tenants) and rounds < 10:
        one.time.run(60_000)
        rounds += 1
    assert set(swept) == {*tenants, "zz-last"}
    assert rounds == 2
    assert last[0] in one.done_at


def _send_for_later(deployment: Deployment, tenants: list[str]) -> None:
    """A message for each tenant that is due tomorrow."""
    for tenant in tenants:
        tomorrow = deployment.world.time.clock() + DAY
        enqueue(deployment.sender.queue(tenant, "Api"), Draft(b'{"n": 1}', not_before=tomorrow))


def test_in_normal_operation_no_wake_up_fails_or_is_late(one: World) -> None:
    deployment = Deployment(one)
    deployment.stream.attach(one.dynamodb)
    ids = [
        deployment.send(queue, 200, at_s=number / 4, tenant=tenant)
        for number in range(200)
        for tenant, queue in (("a", "Quick"), ("b", "Leased"))
    ]
    one.time.run(75_000)
    waits = sorted(deployment.wait_ms(one_id) for one_id in ids)
    assert deployment.stream.failed == 0
    assert deployment.stream.iterator_age_ms < 1_000
    assert waits[-1] < 1_500
    assert waits[len(waits) // 2] < 300
