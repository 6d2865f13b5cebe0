"""What the pull API works on: one seal for all claims, and word to those who wait."""

from __future__ import annotations

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.queue import Runtime
from millrace.model.message import Draft
from millrace.pull.service import PullService
from millrace.stores.memory.admin import MemoryTokens
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.pull.calling import DEFINITIONS


class Dispatches:
    """Notes who hears of what."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str, int]] = []

    def notify(self, tenant: str, queue: str, at: int = 0) -> None:
        self.heard.append((tenant, queue, at))


def test_two_processes_read_each_others_claims() -> None:
    runtime, tokens = Runtime(MemoryStore(), MemoryBlobs()), MemoryTokens()
    one, other = (PullService(runtime, DEFINITIONS, tokens) for _ in range(2))
    queue = one.queue("acme", "Jobs")
    enqueue(queue, Draft(b"1"))
    (held,) = claim(queue, owner="w").claims
    handle = one.handles.write(queue, held.entry, held.lost)
    assert other.handles.read(other.queue("acme", "Jobs"), handle).entry.id == held.entry.id


def test_waiting_consumers_hear_of_their_own_queue() -> None:
    service = PullService(Runtime(MemoryStore(), MemoryBlobs()), DEFINITIONS, MemoryTokens())
    dispatches = Dispatches()
    service.dispatcher = dispatches  # type: ignore[assignment]
    service.notify(service.queue("acme", "Jobs"), 7)
    assert dispatches.heard == [("acme", "Jobs", 7)]
