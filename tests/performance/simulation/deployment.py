"""A whole deployment in virtual time: the real wake-ups behind Lambda, the stream and the schedule as AWS has them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from millrace.definitions import Definitions, TargetKind
from millrace.engine.enqueue import enqueue
from millrace.engine.queue import Queue
from millrace.engine.sweep import sweep
from millrace.model.clock import DAY
from millrace.model.keys import partition
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec
from millrace.stores.dynamodb.counters import queue_state_key
from millrace.stores.dynamodb.registry import registry_key
from millrace.worker import Commands, RunContext, TimeLeft, WorkerSettings
from millrace.worker import sweeper as sweeper_module
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.wakeup import handle_wakeup, read_event, wake_event
from tests.performance.simulation.aws import Function, Invocation, Lambda, Stream, every
from tests.performance.simulation.scenarios import TABLES, TENANT, World, unlimited, world
from tests.performance.simulation.virtual_time import NOON
from tests.worker.definitions import TYPE, compiled

DEFINITIONS = compiled(f"""
queue Slow {{ {TYPE}  max_concurrency: 1  map_to: command Thing.Do {{ n: n }} }}
queue Quick {{ {TYPE}  map_to: command Thing.Do {{ n: n }} }}
queue Leased {{ {TYPE}  max_concurrency: 10  lease_seconds: 30  map_to: command Thing.Do {{ n: n }} }}
queue Keyed {{
    {TYPE}  ordering: per_key(string(n))  delivery {{ max_attempts: 3  max_backoff_ms: 5000 }}
    map_to: command Thing.Do {{ n: n }}
}}
queue Api {{ {TYPE}  drained_by: api }}
""")
#: Attempts of a message in the queue Keyed.
MAX_ATTEMPTS = 3
#: What Lambda takes to accept an asynchronous invocation.
INVOKE_MS = 20.0


class Deployment:
    """The worker function, what wakes it, and senders.

    A message's number is how long its run takes; one below 0 always fails.
    """

    def __init__(self, one: World, *, lanes: int = 2, shards: int = 4, definitions: Definitions = DEFINITIONS) -> None:
        self.world = one
        self.definitions = definitions
        self.cloud = Lambda(one.time)
        self.worker = self.cloud.add(Function("worker", self._make))
        self.stream = Stream(one.time, TABLES.queue, self._deliver, shards=shards, lanes=lanes)
        self.sender = QueueDrainer(one.runtime(), definitions, {})
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
            self.world.runtime(),
            self.definitions,
            deliveries,
            WorkerSettings(),
            default_tenant=TENANT,
            invoke_worker=invoke_worker,
        )

        def handler(event: dict[str, Any], context: Invocation) -> Any:
            left = TimeLeft(context.get_remaining_time_in_millis, monotonic=self.world.time.monotonic)
            results = handle_wakeup(drainer, read_event(event), left)
            drainer.runtime.credits.give_back()
            return {"drained": sum(result.counts["started"] for result in results)}

        return handler

    def _run(self, given: dict[str, int], context: RunContext) -> None:
        self.world.started_at.setdefault(context.message_id, []).append(self.world.time.now)
        if given["n"] < 0:
            raise ValueError("this message always fails")
        self.world.time.sleep_ms(given["n"])
        self.world.done_at[context.message_id] = self.world.time.now

    def send(self, queue: str, run_ms: int, *, at_s: float, tenant: str = TENANT) -> list[str]:
        """Send a message at a time; its id is in the list that is returned once it was accepted."""
        ids: list[str] = []

        def work() -> None:
            body = json.dumps({"n": run_ms}).encode()
            receipt = enqueue(self.sender.queue(tenant, queue), Draft(body, key=str(run_ms)))
            self.world.accepted_at[receipt.message_id] = self.world.time.now
            ids.append(receipt.message_id)

        self.world.time.spawn("sender", work, after_ms=NOON + at_s * 1000 - self.world.time.now)
        return ids

    def spec(self, queue: str) -> QueueSpec:
        return self.definitions.queue(queue).spec

    def wait_ms(self, ids: list[str]) -> float:
        """From a message's receipt to its first start."""
        assert any(name in self.world.started_at for name in ids), "it was not started"
        return self.world.started_at[ids[0]][0] - self.world.accepted_at[ids[0]]


@dataclass(frozen=True, slots=True)
class SweepFigures:
    """What a sweep over many queues means for a healthy message, and for the queues themselves."""

    longest_ms: float  #: of healthy messages that the stream told of
    found_ms: float  #: of one that only the sweep can find, in the last queue by name
    rounds: int  #: sweeps until every queue had its turn


def beside_a_sweep(queues: int, patch: pytest.MonkeyPatch, *, box_ms: int = sweeper_module.SWEEP_MS) -> SweepFigures:
    """Sweep many queues that hold something, with so much time in each minute, while healthy messages arrive."""
    patch.setattr(sweeper_module, "SWEEP_MS", box_ms)
    swept: set[str] = set()

    def note(queue: Queue) -> None:
        swept.add(queue.tenant)
        sweep(queue)

    patch.setattr(sweeper_module, "sweep", note)
    with world(seed=7) as one:
        deployment = Deployment(one)
        with unlimited(one):
            tenants = _hold_for_later(deployment, queues)
            body = Draft(b'{"n": 5}')
            hidden = enqueue(deployment.sender.queue("zz-last", "Quick"), body).message_id  # before the stream is there
            one.accepted_at[hidden] = one.time.now
        deployment.stream.attach(one.dynamodb)
        healthy = [deployment.send("Quick", 5, at_s=at, tenant="m") for at in (30, 62, 70, 85, 125, 140)]
        one.time.run(50_000)
        minutes = rounds = 0
        while minutes < 3 or (not rounds and minutes < 30):
            one.time.run(60_000)
            minutes += 1
            rounds = rounds or (minutes if len(swept) > len(tenants) else 0)
        assert swept >= {*tenants, "zz-last"}, "a queue had no turn"
        return SweepFigures(max(map(deployment.wait_ms, healthy)), deployment.wait_ms([hidden]), rounds)


def _hold_for_later(deployment: Deployment, queues: int) -> list[str]:
    """A queue with a message that is due tomorrow for each of many tenants: one is sent, the others are its copies."""
    one, first = deployment.world, "t00000"
    queue = deployment.sender.queue(first, "Api")
    enqueue(queue, Draft(b'{"n": 1}', not_before=one.time.clock() + DAY))
    deployment.sender.runtime.credits.give_back()
    (entry,) = one.dynamodb.items(TABLES.queue, queue.partitions())
    (state,) = one.dynamodb.items(TABLES.queue, [queue_state_key(first, "Api")["pk"]["S"]])
    tenants = [f"t{number:05d}" for number in range(queues)]
    for tenant in tenants:
        one.dynamodb.lay(TABLES.queue, {**entry, "pk": {"S": partition(tenant, "Api", 0)}})
        one.dynamodb.lay(TABLES.queue, {**state, **queue_state_key(tenant, "Api")})
        one.dynamodb.lay(TABLES.queue, registry_key(tenant, "Api"))
    return tenants
