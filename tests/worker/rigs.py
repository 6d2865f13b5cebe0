"""Drainers for tests: one for wake-ups and slots, one for targets."""

from __future__ import annotations

import json
from typing import Any

from millrace.definitions import TargetKind
from millrace.engine.queue import Queue
from millrace.engine.status import status
from millrace.model.message import Entry
from millrace.worker import Commands, TimeLeft
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.targets.chain import QueueDelivery
from millrace.worker.targets.request import Deliver
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


def put_n(queue: Queue, n: int = 1, **fields: Any) -> str:
    return put(queue, json.dumps({"n": n}).encode(), **fields).message_id
