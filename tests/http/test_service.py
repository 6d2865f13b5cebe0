"""A process's queues: made once, so that what they have cached serves."""

from __future__ import annotations

import pytest

from millrace.engine.queue import Runtime
from millrace.http import service as module
from millrace.http.service import ApiService
from millrace.model.errors import UnknownQueue
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.pull.calling import DEFINITIONS


def made() -> ApiService:
    return ApiService(Runtime(MemoryStore(), MemoryBlobs()), DEFINITIONS)


def test_a_tenants_queue_is_the_same_object_each_time() -> None:
    service = made()
    assert service.queue("acme", "Jobs") is service.queue("acme", "Jobs")
    assert service.queue("acme", "Jobs") is not service.queue("beta", "Jobs")
    with pytest.raises(UnknownQueue):
        service.queue("acme", "Jbos")


def test_no_more_queues_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_QUEUES", 2)
    service = made()
    for number in range(5):
        service.queue(f"tenant{number}", "Jobs")
    assert len(service._queues) <= 2
