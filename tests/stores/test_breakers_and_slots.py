"""What the worker asks of a store besides the protocol: every queue in one list, breakers, slots."""

from __future__ import annotations

from dataclasses import replace

from millrace.engine.enqueue import enqueue
from millrace.model.message import Draft
from millrace.model.queue_state import BreakerState, Slot
from tests.conftest import Bench


def test_every_queue_of_every_tenant_is_listed(bench: Bench) -> None:
    enqueue(bench.queue("One"), Draft(b"x"))
    enqueue(bench.queue("Two"), Draft(b"x"))
    listed = {(state.tenant, state.queue) for state in bench.store.list_all_queue_states()}
    assert {(bench.tenant, "One"), (bench.tenant, "Two")} <= listed


def test_a_breaker_is_kept_with_the_queues_state(bench: Bench) -> None:
    queue = bench.queue()
    target = "http:https://example.com/a.b?c=d"
    assert bench.store.set_breaker(queue.state(fresh=True), target, BreakerState(5_000, 2))
    assert queue.state(fresh=True).breakers == {target: BreakerState(5_000, 2)}
    assert bench.store.set_breaker(queue.state(), target, None)
    assert queue.state(fresh=True).breakers == {}


def test_a_breaker_moves_on_only_from_where_it_was_seen(bench: Bench) -> None:
    queue = bench.queue()
    before = queue.state(fresh=True)
    assert bench.store.set_breaker(before, "t", BreakerState(1))
    assert not bench.store.set_breaker(before, "t", BreakerState(2))
    assert not bench.store.set_breaker(replace(before, breakers={"t": BreakerState(9)}), "t", None)
    assert queue.state(fresh=True).breakers == {"t": BreakerState(1)}


def test_a_slot_has_one_holder_until_it_runs_out(bench: Bench) -> None:
    store, now = bench.store, bench.clock()
    mine, other = Slot(0, "mine", now + 1_000), Slot(0, "other", now + 5_000)
    assert store.take_slot(bench.tenant, "Jobs", mine, now)
    assert store.take_slot(bench.tenant, "Jobs", mine, now)
    assert not store.take_slot(bench.tenant, "Jobs", other, now + 999)
    assert store.take_slot(bench.tenant, "Jobs", replace(other, number=1), now)
    assert store.take_slot(bench.tenant, "Jobs", other, now + 1_000)
    assert not store.take_slot(bench.tenant, "Jobs", replace(mine, until=now + 9_000), now + 1_001)


def test_a_slot_is_freed_only_by_its_holder(bench: Bench) -> None:
    store, now = bench.store, bench.clock()
    mine, other = Slot(0, "mine", now + 1_000), Slot(0, "other", now + 1_000)
    assert store.take_slot(bench.tenant, "Jobs", mine, now)
    store.free_slot(bench.tenant, "Jobs", other)
    assert not store.take_slot(bench.tenant, "Jobs", other, now)
    store.free_slot(bench.tenant, "Jobs", mine)
    assert store.take_slot(bench.tenant, "Jobs", other, now)
