"""Drainers for tests: one for wake-ups and slots, one for targets, one for a command that takes batches."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from millrace.definitions import TargetKind
from millrace.engine.enqueue import enqueue_all
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.handlers.batches import Batch
from millrace.model.message import Draft, Entry
from millrace.worker import Commands, TimeLeft
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.runners import Together
from millrace.worker.targets.chain import QueueDelivery
from millrace.worker.targets.plan import TargetPlan
from millrace.worker.targets.request import Deliver
from millrace.worker.worker import Worker
from tests.conftest import Bench
from tests.worker.conftest import AT_ONCE, put
from tests.worker.definitions import TYPE, compiled

QUEUES = f"""
queue Jobs {{ {TYPE}  max_concurrency: 10  map_to: command Thing.Do {{ n: n }} }}
queue Others {{ {TYPE}  map_to: command Thing.Do {{ n: n }} }}
queue Api {{ {TYPE}  drained_by: api }}
"""


class DrainerRig:
    """A drainer of a process of its own, whose commands note what they were given."""

    def __init__(self, bench: Bench, **given: Any) -> None:
        self.tenant = bench.tenant
        self.seen: list[int] = []
        self.before: Any = lambda n: None
        commands = Commands()
        commands.command("Thing.Do")(self._do)
        deliveries = {TargetKind.COMMAND: commands}
        self.drainer = QueueDrainer(bench.another_process(), compiled(QUEUES), deliveries, AT_ONCE, **given)

    def _do(self, given: dict[str, int]) -> None:
        self.before(given["n"])
        self.seen.append(given["n"])

    def queue(self, name: str = "Jobs") -> Queue:
        return self.drainer.queue(self.tenant, name)

    def put(self, n: int, name: str = "Jobs", **fields: Any) -> str:
        return put(self.queue(name), json.dumps({"n": n}).encode(), **fields).message_id

    def wake_request(self, name: str = "Jobs", **fields: Any) -> WakeRequest:
        return WakeRequest(self.tenant, name, **fields)


class TargetRig:
    """A drainer on a test's store, with commands of its own and whatever deliveries the test gives."""

    def __init__(self, bench: Bench, queues: str, **deliveries: Deliver) -> None:
        self.bench = bench
        self.definitions = compiled(queues)
        self.commands = Commands()
        kinds: dict[TargetKind, Deliver] = {
            TargetKind.COMMAND: self.commands,
            TargetKind.QUEUE: QueueDelivery(self.definitions.queue),
        }
        kinds |= {TargetKind(name): delivery for name, delivery in deliveries.items()}
        self.drainer = QueueDrainer(bench.runtime, self.definitions, kinds, AT_ONCE)

    def queue(self, name: str = "Jobs") -> Queue:
        return self.drainer.queue(self.bench.tenant, name)

    def drain(self, name: str = "Jobs") -> Any:
        return self.drainer.drain(WakeRequest(self.bench.tenant, name), TimeLeft())

    def entry(self, message_id: str, name: str = "Jobs") -> Entry:
        found = status(self.queue(name), message_id).entry
        assert found is not None
        return found


class BatchRig(TargetRig):
    """A queue whose command takes batches, and notes what each call was given."""

    def __init__(self, bench: Bench, handler: Callable[[Batch], Any], settings: str = "", size: int = 10) -> None:
        super().__init__(bench, f"queue Jobs {{ {TYPE}  {settings}  map_to: command Thing.Do {{ n: n }} }}")
        self.calls: list[list[int]] = []
        self._handler = handler
        self.commands.command("Thing.Do", batch=size)(self._call)

    def _call(self, batch: Batch) -> Any:
        self.calls.append([item.input["n"] for item in batch])
        return self._handler(batch)

    def send(self, count: int) -> list[str]:
        drafts = [Draft(json.dumps({"n": n}).encode(), key=f"k{n}") for n in range(count)]
        return [receipt.message_id for receipt in enqueue_all(self.queue(), drafts)]  # type: ignore[union-attr]

    def statuses(self, ids: list[str]) -> list[MessageStatus]:
        return [status(self.queue(), message_id).status for message_id in ids]


def worker_of(rig: BatchRig, time_left: TimeLeft | None = None) -> Worker:
    """A worker of the rig's queue that a test can reach into."""
    queue, definition = rig.queue(), rig.definitions.queue("Jobs")
    plan = TargetPlan(definition, rig.drainer.deliveries, rig.drainer._breakers_of(queue, definition))
    assert plan.batch is not None
    together = Together(plan.batch, plan.deliver_batch)
    return Worker(queue, plan, settings=AT_ONCE, time_left=time_left, together=together)


def put_n(queue: Queue, n: int = 1, **fields: Any) -> str:
    return put(queue, json.dumps({"n": n}).encode(), **fields).message_id
