"""Reviews behind the sweep: each queue whose time it is, and one that fails keeps no other from it."""

from __future__ import annotations

import pytest

from millrace.model.errors import StoreUnavailable
from millrace.model.queue_state import CounterDelta
from millrace.stores.interface import Store
from millrace.worker import TimeLeft
from millrace.worker import dictionaries as module
from millrace.worker.dictionaries import review_dictionaries
from tests.conftest import Bench
from tests.worker.rigs import DrainerRig


@pytest.fixture
def rig(memory_bench: Bench) -> DrainerRig:
    return DrainerRig(memory_bench)


def _busy(rig: DrainerRig, queue: str = "Jobs") -> None:
    runtime, tenant = rig.drainer.runtime, rig.queue().tenant
    runtime.store.register(tenant, queue)
    runtime.store.settle(tenant, queue, CounterDelta(runtime.clock(), arrived=1_000))


def _round(rig: DrainerRig) -> None:
    store: Store = rig.drainer.runtime.store
    review_dictionaries(rig.drainer, store.list_all_queue_states(), TimeLeft())


def test_queues_whose_time_it_is_are_reviewed(rig: DrainerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(module, "review_dictionary", lambda _queue, state: seen.append(state.queue))
    _round(rig)
    assert not seen
    _busy(rig)
    _busy(rig, "NotDefined")
    _round(rig)
    assert seen == ["Jobs"]


def test_a_review_that_fails_is_told_and_tried_again(
    rig: DrainerRig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise StoreUnavailable("silent")

    _busy(rig)
    monkeypatch.setattr(rig.drainer.runtime.store, "get_body_sample", fails)
    with caplog.at_level("WARNING"):
        _round(rig)
    assert [record.action for record in caplog.records] == ["dictionary_review_failed"]  # type: ignore[attr-defined]
