"""The sweep's samples: one for a queue in five minutes, and only while there is anything to say."""

from __future__ import annotations

import pytest

from millrace.engine.claim import claim
from millrace.engine.finish import ack
from millrace.model.clock import MINUTE
from millrace.model.errors import StoreUnavailable
from millrace.model.queue_samples import QueueSample
from millrace.worker import TimeLeft
from millrace.worker.samples import keep_samples
from tests.conftest import Bench
from tests.worker.rigs import DrainerRig


class Hours:
    """A drainer whose sweep keeps samples, minute after minute."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.rig = DrainerRig(bench)
        self.queue = self.rig.queue()

    def minutes(self, count: int) -> None:
        for _ in range(count):
            self.bench.clock.forward(MINUTE)
            self.rig.drainer.runtime.credits.give_back()
            keep_samples(self.rig.drainer, self.bench.store.list_all_queue_states(), TimeLeft())

    @property
    def kept(self) -> list[QueueSample]:
        return self.bench.store.read_samples(self.queue.tenant, "Jobs", 0)


@pytest.fixture
def hours(memory_bench: Bench) -> Hours:
    return Hours(memory_bench)


def test_a_queue_that_holds_anything_gets_a_sample_every_five_minutes(
    hours: Hours, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[QueueSample] = []
    whole = hours.bench.store.put_sample

    def put_sample(tenant: str, queue: str, sample: QueueSample) -> None:
        written.append(sample)
        whole(tenant, queue, sample)

    monkeypatch.setattr(hours.bench.store, "put_sample", put_sample)
    hours.rig.put(1)
    hours.minutes(60)
    assert len(written) <= 15, "one in five minutes, and that it is new"
    empty, *kept = hours.kept
    assert (empty.depth, empty.arrived) == (0, 0), "it is new: it began with nothing"
    assert 11 <= len(kept) <= 13
    assert {(sample.depth, sample.arrived) for sample in kept} == {(1, 1)}
    assert kept[-1].oldest_age_ms > 50 * MINUTE


def test_an_idle_queue_costs_nothing_after_its_last_word(hours: Hours) -> None:
    hours.rig.put(1)
    hours.minutes(7)
    ack(hours.queue, [held.entry for held in claim(hours.queue, owner="w").claims])
    hours.minutes(12)
    last = hours.kept[-1]
    assert (last.depth, last.arrived, last.done) == (0, 1, 1)
    before = len(hours.kept)
    hours.minutes(60)
    assert len(hours.kept) == before


def test_a_sample_that_is_lost_keeps_no_other_from_its_turn(hours: Hours, monkeypatch: pytest.MonkeyPatch) -> None:
    hours.rig.put(1)
    hours.rig.put(1, "Others")
    whole = hours.bench.store.put_sample

    def put_sample(tenant: str, queue: str, sample: QueueSample) -> None:
        if queue == "Jobs":
            raise StoreUnavailable("no answer")
        whole(tenant, queue, sample)

    monkeypatch.setattr(hours.bench.store, "put_sample", put_sample)
    hours.minutes(10)
    assert not hours.kept
    assert hours.bench.store.read_samples(hours.queue.tenant, "Others", 0)
