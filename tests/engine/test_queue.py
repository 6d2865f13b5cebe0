"""A queue at work: whose it is, where it lies, and how old a state it answers from."""

from __future__ import annotations

import pytest

from millrace.engine.operate import pause
from millrace.engine.queue import CACHED_STATE_MS
from millrace.history.log import HistoryEvent
from millrace.model.errors import InvalidField
from millrace.model.keys import partition
from tests.conftest import Bench
from tests.stores.samples import Samples


@pytest.mark.parametrize("tenant", ["", "a#b", "a" * 49, "ä", "-a", "a b"])
def test_a_malformed_tenant_is_refused(bench: Bench, tenant: str) -> None:
    with pytest.raises(InvalidField, match="tenant"):
        bench.runtime.queue(tenant, bench.queue().spec)


@pytest.mark.parametrize("name", ["", "1st", "a#b", "a" * 65, "a-b"])
def test_a_malformed_queue_name_is_refused(memory_bench: Bench, name: str) -> None:
    with pytest.raises(InvalidField, match="queue"):
        memory_bench.queue(name)


def test_each_shard_is_a_partition(memory_bench: Bench) -> None:
    queue = memory_bench.queue(shards=3)
    assert queue.partitions() == [partition(memory_bench.tenant, "Jobs", shard) for shard in range(3)]


def test_a_state_serves_for_a_second_and_no_longer(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    assert queue.state().paused_at == 0
    pause(memory_bench.queue(runtime=memory_bench.another_process()), "olga")
    memory_bench.clock.forward(CACHED_STATE_MS - 1)
    assert queue.state().paused_at == 0
    assert queue.state(fresh=True).paused_at != 0
    memory_bench.clock.forward(CACHED_STATE_MS)
    assert queue.state().paused_by == "olga"


def test_a_state_that_came_with_another_answer_is_not_read_again(
    memory_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = memory_bench.queue()
    state = memory_bench.store.set_paused(queue.tenant, "Jobs", 5, "olga")
    queue.cache_state(state)
    monkeypatch.delattr(type(memory_bench.store), "get_queue_state")
    assert queue.state() is state


def test_queues_of_one_runtime_share_its_store_and_clock_and_no_memory_of_polls(memory_bench: Bench) -> None:
    one, other = memory_bench.queue(), memory_bench.queue()
    assert one == other
    assert one.store is other.store
    assert one.now is other.now
    assert one.poll_memory is not other.poll_memory


def test_nothing_is_recorded_where_nobody_keeps_histories(memory_bench: Bench) -> None:
    queue, samples = memory_bench.queue(), Samples(memory_bench.tenant)
    assert queue.runtime.history is None
    queue.record(HistoryEvent.DEAD, [samples.entry()])
    queue.record_accepted([(samples.message(), None)])
