"""The queue's counters, on every store: depth never too low, endings counted once and under the right epoch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from millrace.model.clock import DAY, MINUTE
from millrace.model.queue_samples import SAMPLE_MS, QueueSample
from millrace.model.queue_state import BreakerState, CounterDelta, CreditRequest, QueueState, Slot
from millrace.model.webhook_problems import WebhookProblem
from millrace.stores.interface import Full, Store
from tests.conftest import NOON
from tests.stores.samples import queue_states

QUEUE = "Jobs"
NOW = NOON // MINUTE
TODAY = NOON // DAY


def take(store: Store, tenant: str, count: int, max_depth: int = 100, **changes: object) -> QueueState | Full:
    return store.take_credits(tenant, QUEUE, CreditRequest(count, max_depth, NOON, **changes))  # type: ignore[arg-type]


def test_unused_queue_has_all_its_counters_at_zero(store: Store, tenant: str) -> None:
    assert store.get_queue_state(tenant, QUEUE) == QueueState(tenant, QUEUE)
    assert not queue_states(store, tenant)


def test_taken_credits_add_to_the_depth(store: Store, tenant: str) -> None:
    state = take(store, tenant, 7, arrived=2)
    expected = QueueState(tenant, QUEUE, depth=7, arrived=2, moved_at=NOON, grants={NOW: 7}, arrivals={NOW: 2})
    assert state == expected == store.get_queue_state(tenant, QUEUE)
    state = store.take_credits(tenant, QUEUE, CreditRequest(1, 100, NOON + MINUTE, 1))
    assert state == replace(
        expected,
        depth=8,
        arrived=3,
        moved_at=NOON + MINUTE,
        grants={NOW: 7, NOW + 1: 1},
        arrivals={NOW: 2, NOW + 1: 1},
    )


def test_depth_reaches_the_limit_and_not_one_more(store: Store, tenant: str) -> None:
    assert isinstance(take(store, tenant, 9, 10), QueueState)
    before = store.get_queue_state(tenant, QUEUE)
    assert take(store, tenant, 2, 10) == Full(before)
    assert isinstance(take(store, tenant, 1, 10), QueueState)
    assert isinstance(take(store, tenant, 1, 10), Full)
    assert store.get_queue_state(tenant, QUEUE).depth == 10


def test_first_block_larger_than_the_queue_is_refused(store: Store, tenant: str) -> None:
    assert take(store, tenant, 11, 10) == Full(QueueState(tenant, QUEUE))
    assert not queue_states(store, tenant), "nothing was written"


def test_many_takers_never_exceed_the_limit(store: Store, tenant: str) -> None:
    with ThreadPoolExecutor(8) as takers:
        answers = list(takers.map(lambda _: take(store, tenant, 3, 20), range(16)))
    granted = [answer for answer in answers if isinstance(answer, QueueState)]
    assert len(granted) == 6
    assert store.get_queue_state(tenant, QUEUE).depth == 18


def test_stale_minutes_go_with_the_next_write(store: Store, tenant: str) -> None:
    take(store, tenant, 1, arrived=1)
    later = NOON + 10 * MINUTE
    state = store.take_credits(tenant, QUEUE, CreditRequest(1, 100, later, stale_minutes=(NOW,)))
    assert isinstance(state, QueueState)
    assert (state.grants, state.arrivals) == ({NOW + 10: 1}, {})
    store.settle(tenant, QUEUE, CounterDelta(later, ended=1, done=1))
    settled = store.settle(tenant, QUEUE, CounterDelta(later + DAY, done=1, stale_minutes=(NOW + 10,)))
    assert settled is not None
    assert (settled.grants, settled.endings) == ({}, {NOW + 10 + DAY // MINUTE: 1})
    assert store.get_queue_state(tenant, QUEUE) == settled


def test_settling_gives_back_and_counts(store: Store, tenant: str) -> None:
    take(store, tenant, 10)
    delta = CounterDelta(NOON, ended=3, done=2, failed=4, arrived=6, unspent=1, dead={TODAY: 2, TODAY - 1: -1})
    settled = store.settle(tenant, QUEUE, delta)
    assert settled == store.get_queue_state(tenant, QUEUE)
    assert settled == QueueState(
        tenant,
        QUEUE,
        depth=6,
        returned=4,
        arrived=6,
        done=2,
        failed=4,
        dead=2,
        moved_at=NOON,
        grants={NOW: 10},
        arrivals={NOW: 6},
        endings={NOW: 2},
        dead_days={TODAY: 2, TODAY - 1: -1},
    )


def test_the_newest_done_are_remembered_until_others_are(store: Store, tenant: str) -> None:
    take(store, tenant, 10)
    first = store.settle(tenant, QUEUE, CounterDelta(NOON, ended=2, done=2, recent_done=("b", "a")))
    assert first is not None
    assert first.recent_done == ("b", "a")
    kept = store.settle(tenant, QUEUE, CounterDelta(NOON + 1, ended=1))
    assert kept is not None
    assert (kept.recent_done, kept.moved_at) == (("b", "a"), NOON + 1)
    assert store.get_queue_state(tenant, QUEUE) == kept


def test_samples_are_kept_one_for_five_minutes(store: Store, tenant: str) -> None:
    samples = [QueueSample(NOON + n * SAMPLE_MS, n, 1_000 * n, 4, 3, 2, 1) for n in range(30)]
    for sample in samples:
        store.put_sample(tenant, QUEUE, replace(sample, depth=99))
        store.put_sample(tenant, QUEUE, sample)
    store.put_sample(f"{tenant}x", QUEUE, samples[0])
    assert store.read_samples(tenant, QUEUE, 0) == samples
    assert store.read_samples(tenant, QUEUE, samples[7].at) == samples[7:]
    assert store.read_samples(tenant, "Other", 0) == []


def test_a_webhooks_newest_problem_is_kept_until_it_is_deleted(store: Store, tenant: str) -> None:
    def kept() -> list[WebhookProblem]:
        return [one for one in store.read_webhook_problems() if one.webhook.startswith(tenant)]

    first = WebhookProblem(f"{tenant}A", "KEY is not set", NOON, NOON)
    second = WebhookProblem(f"{tenant}B", "the store did not answer", NOON, NOON)
    for problem in (second, first, replace(first, last=NOON + 1)):
        store.put_webhook_problem(problem)
    assert kept() == [replace(first, last=NOON + 1), second]
    store.delete_webhook_problem(first.webhook)
    store.delete_webhook_problem(first.webhook)
    assert kept() == [second]


def test_settling_under_an_older_epoch_gives_nothing_back(store: Store, tenant: str) -> None:
    """The sweep has counted those endings already; giving them back again would make the depth too low."""
    take(store, tenant, 10)
    assert store.repair_depth(store.get_queue_state(tenant, QUEUE), 4, NOON) is True
    settled = store.settle(tenant, QUEUE, CounterDelta(NOON, epoch=0, ended=4, done=4))
    assert settled is not None
    assert (settled.depth, settled.returned, settled.done) == (6, 0, 4)
    settled = store.settle(tenant, QUEUE, CounterDelta(NOON, epoch=1, ended=2, done=2))
    assert settled is not None
    assert (settled.depth, settled.returned, settled.done) == (4, 2, 6)


def test_settling_only_credits_of_an_older_epoch_changes_nothing(store: Store, tenant: str) -> None:
    take(store, tenant, 10)
    store.repair_depth(store.get_queue_state(tenant, QUEUE), 4, NOON)
    before = store.get_queue_state(tenant, QUEUE)
    assert store.settle(tenant, QUEUE, CounterDelta(NOON, epoch=0, ended=4)) == before
    assert store.get_queue_state(tenant, QUEUE) == before


def test_mending_lowers_the_depth_and_opens_an_epoch(store: Store, tenant: str) -> None:
    take(store, tenant, 10)
    seen = store.get_queue_state(tenant, QUEUE)
    assert store.repair_depth(seen, 4, NOON + 1) is True
    repaired = store.get_queue_state(tenant, QUEUE)
    assert repaired == replace(seen, depth=6, epoch=1, repaired_at=NOON + 1)
    assert store.repair_depth(seen, 4, NOON + 2) is False, "that epoch is over"
    assert store.repair_depth(repaired, 1, NOON + 2) is True


def test_mending_after_credits_came_back_changes_nothing(store: Store, tenant: str) -> None:
    take(store, tenant, 10)
    seen = store.get_queue_state(tenant, QUEUE)
    settled = store.settle(tenant, QUEUE, CounterDelta(NOON, ended=1, done=1))
    assert store.repair_depth(seen, 4, NOON) is False
    assert store.get_queue_state(tenant, QUEUE) == settled


def test_mending_does_not_mind_credits_taken_meanwhile(store: Store, tenant: str) -> None:
    take(store, tenant, 10)
    seen = store.get_queue_state(tenant, QUEUE)
    take(store, tenant, 5)
    assert store.repair_depth(seen, 4, NOON) is True
    assert store.get_queue_state(tenant, QUEUE).depth == 11


def test_pace_moves_on_from_where_it_was_seen(store: Store, tenant: str) -> None:
    unused = store.get_queue_state(tenant, QUEUE)
    assert store.set_pace(unused, NOON) is True
    assert store.set_pace(unused, NOON + 5) is False
    seen = store.get_queue_state(tenant, QUEUE)
    assert seen.pace_at == NOON
    assert store.set_pace(seen, NOON + 9) is True
    assert store.get_queue_state(tenant, QUEUE).pace_at == NOON + 9


def test_of_many_paces_at_once_one_moves_on(store: Store, tenant: str) -> None:
    seen = store.get_queue_state(tenant, QUEUE)
    with ThreadPoolExecutor(8) as workers:
        moved = list(workers.map(lambda n: store.set_pace(seen, NOON + n), range(1, 9)))
    assert sum(moved) == 1


def test_pause_and_resume(store: Store, tenant: str) -> None:
    take(store, tenant, 1)
    paused = store.set_paused(tenant, QUEUE, NOON, "zoë@example.com")
    assert (paused.paused_at, paused.paused_by, paused.depth) == (NOON, "zoë@example.com", 1)
    assert store.get_queue_state(tenant, QUEUE) == paused
    resumed = store.set_paused(tenant, QUEUE, 0, "")
    assert (resumed.paused_at, resumed.paused_by, resumed.depth) == (0, "", 1)
    assert store.get_queue_state(tenant, QUEUE) == resumed


def test_list_has_the_queues_of_one_tenant_in_order(store: Store, tenant: str) -> None:
    for queue in ("Zebra", "Apple", "Mango"):
        store.take_credits(tenant, queue, CreditRequest(1, 10, NOON))
        store.register(tenant, queue)
    store.register(f"{tenant}x", "Other")
    store.take_credits(tenant, "Unlisted", CreditRequest(1, 10, NOON))
    listed = queue_states(store, tenant)
    assert [state.queue for state in listed] == ["Apple", "Mango", "Zebra"]
    assert listed == [store.get_queue_state(tenant, queue) for queue in ("Apple", "Mango", "Zebra")]


def test_list_of_all_has_the_queues_of_every_tenant(store: Store, tenant: str) -> None:
    owners = [(tenant, "Zebra"), (tenant, "Apple"), (f"{tenant}x", "Other")]
    for owner in owners:
        store.register(*owner)
    states = {owner: store.take_credits(*owner, CreditRequest(1, 10, NOON)) for owner in owners}
    listed = {(state.tenant, state.queue): state for state in store.list_all_queue_states()}
    assert {owner: listed[owner] for owner in owners} == states


# -- the list of queues ---------------------------------------------------------------------------------------------


def test_a_queue_is_listed_once_and_its_state_says_so(store: Store, tenant: str) -> None:
    assert store.get_queue_state(tenant, QUEUE).listed is False
    for _ in range(2):
        store.register(tenant, QUEUE)
        assert queue_states(store, tenant) == [QueueState(tenant, QUEUE, listed=True)]
    taken = take(store, tenant, 1)
    assert isinstance(taken, QueueState)
    assert taken.listed is True
    assert queue_states(store, tenant) == [taken]


def test_a_list_longer_than_a_batch_read_has_every_queue(store: Store, tenant: str) -> None:
    names = [f"Q{number:03d}" for number in range(120)]
    for name in names:
        store.register(tenant, name)
    assert [state.queue for state in queue_states(store, tenant)] == names


def test_an_empty_queue_leaves_the_list_and_comes_back(store: Store, tenant: str) -> None:
    store.register(tenant, QUEUE)
    take(store, tenant, 2)
    store.settle(tenant, QUEUE, CounterDelta(NOON + 1, ended=2, done=2))
    seen = store.get_queue_state(tenant, QUEUE)
    assert store.unregister(seen) is True
    assert not queue_states(store, tenant)
    assert store.get_queue_state(tenant, QUEUE) == replace(seen, listed=False), "its counters stay"
    assert store.unregister(replace(seen, listed=False)) is False
    store.register(tenant, QUEUE)
    assert queue_states(store, tenant) == [seen]


def test_a_queue_that_holds_something_stays_on_the_list(store: Store, tenant: str) -> None:
    store.register(tenant, QUEUE)
    take(store, tenant, 1)
    assert store.unregister(store.get_queue_state(tenant, QUEUE)) is False
    assert len(queue_states(store, tenant)) == 1


def test_a_queue_in_which_something_was_counted_since_stays_on_the_list(store: Store, tenant: str) -> None:
    """Credits were taken and came back: who took them may be about to put something in."""
    store.register(tenant, QUEUE)
    seen = store.get_queue_state(tenant, QUEUE)
    take(store, tenant, 1)
    store.settle(tenant, QUEUE, CounterDelta(NOON + 1, unspent=1))
    assert store.unregister(seen) is False
    assert len(queue_states(store, tenant)) == 1


def test_of_credits_and_leaving_the_list_at_once_one_sees_the_other(store: Store, tenant: str) -> None:
    """Never both: credits of a listed queue, and the queue off the list."""
    for number in range(8):
        name = f"Q{number}"
        store.register(tenant, name)
        seen = store.get_queue_state(tenant, name)
        with ThreadPoolExecutor(2) as actors:
            left = actors.submit(store.unregister, seen)
            taken = actors.submit(store.take_credits, tenant, name, CreditRequest(1, 10, NOON))
            state = taken.result()
        assert isinstance(state, QueueState)
        assert left.result() is not state.listed or not left.result()


# -- order numbers --------------------------------------------------------------------------------------------------


def test_each_shard_counts_its_own_order_numbers(store: Store, tenant: str) -> None:
    assert store.take_numbers(tenant, QUEUE, {0: 3}) == {0: 1}
    assert store.take_numbers(tenant, QUEUE, {0: 1, 7: 2, 31: 5}) == {0: 4, 7: 1, 31: 1}
    assert store.take_numbers(tenant, QUEUE, {7: 1, 0: 1}) == {7: 3, 0: 5}
    assert store.take_numbers(tenant, "Other", {0: 1}) == {0: 1}
    assert store.take_numbers(tenant, QUEUE, {}) == {}


def test_no_order_number_is_given_twice(store: Store, tenant: str) -> None:
    with ThreadPoolExecutor(8) as takers:
        answers = list(takers.map(lambda _: store.take_numbers(tenant, QUEUE, {0: 3, 1: 2}), range(16)))
    assert sorted(answer[0] for answer in answers) == list(range(1, 48, 3))
    assert sorted(answer[1] for answer in answers) == list(range(1, 32, 2))


# -- circuit breakers and places for workers ------------------------------------------------------------------------


def test_circuit_breaker_opens_probes_and_closes(store: Store, tenant: str) -> None:
    unused = store.get_queue_state(tenant, QUEUE)
    assert store.set_breaker(unused, "http: a.b#c é", BreakerState(NOON)) is True
    opened = store.get_queue_state(tenant, QUEUE)
    assert opened == replace(unused, breakers={"http: a.b#c é": BreakerState(NOON)})
    assert store.set_breaker(opened, "http: a.b#c é", BreakerState(NOON + 5, 1)) is True
    probed = store.get_queue_state(tenant, QUEUE)
    assert probed.breakers == {"http: a.b#c é": BreakerState(NOON + 5, 1)}
    assert store.set_breaker(probed, "http: a.b#c é", None) is True
    assert store.get_queue_state(tenant, QUEUE).breakers == {}


def test_circuit_breaker_seen_otherwise_changes_nothing(store: Store, tenant: str) -> None:
    unused = store.get_queue_state(tenant, QUEUE)
    store.set_breaker(unused, "a", BreakerState(NOON))
    opened = store.get_queue_state(tenant, QUEUE)
    assert store.set_breaker(unused, "a", BreakerState(NOON + 9)) is False
    assert store.set_breaker(replace(opened, breakers={"a": BreakerState(NOON, 4)}), "a", None) is False
    assert store.get_queue_state(tenant, QUEUE) == opened
    assert store.set_breaker(unused, "b", BreakerState(NOON + 1)) is True, "another target's is its own"
    assert store.get_queue_state(tenant, QUEUE).breakers == {"a": BreakerState(NOON), "b": BreakerState(NOON + 1)}


def test_slot_is_held_until_it_runs_out_or_is_freed(store: Store, tenant: str) -> None:
    mine, rival = Slot(0, "mine", NOON + 10), Slot(0, "rival", NOON + 20)
    assert store.take_slot(tenant, QUEUE, mine, NOON) is True
    assert store.take_slot(tenant, QUEUE, rival, NOON + 9) is False
    assert store.take_slot(tenant, QUEUE, replace(mine, until=NOON + 12), NOON + 9) is True, "the holder goes on"
    assert store.take_slot(tenant, QUEUE, rival, NOON + 11) is False
    assert store.take_slot(tenant, QUEUE, rival, NOON + 12) is True, "it ran out this very moment"
    store.free_slot(tenant, QUEUE, mine)
    assert store.take_slot(tenant, QUEUE, mine, NOON + 13) is False, "only its holder frees it"
    store.free_slot(tenant, QUEUE, rival)
    assert store.take_slot(tenant, QUEUE, mine, NOON + 13) is True


def test_slots_keep_apart_by_number_queue_and_tenant(store: Store, tenant: str) -> None:
    slot = Slot(0, "mine", NOON + 10)
    assert store.take_slot(tenant, QUEUE, slot, NOON) is True
    rival = replace(slot, token="rival")
    assert store.take_slot(tenant, QUEUE, replace(rival, number=1), NOON) is True
    assert store.take_slot(tenant, "Others", rival, NOON) is True
    assert store.take_slot(f"{tenant}x", QUEUE, rival, NOON) is True
    assert store.take_slot(tenant, QUEUE, rival, NOON) is False


def test_slots_that_were_taken_are_listed_in_order(store: Store, tenant: str) -> None:
    slots = [Slot(number, f"w{number}", NOON + number) for number in (3, 0, 12)]
    for slot in slots:
        store.take_slot(tenant, QUEUE, slot, NOON)
    store.take_slot(tenant, f"{QUEUE}s", Slot(1, "other", NOON), NOON)
    assert store.list_slots(tenant, QUEUE) == [slots[1], slots[0], slots[2]]
    store.free_slot(tenant, QUEUE, slots[0])
    assert [slot.number for slot in store.list_slots(tenant, QUEUE)] == [0, 12]
    assert store.list_slots(tenant, "Unused") == []


def test_where_a_sweep_stopped_is_kept_by_its_name(store: Store, tenant: str) -> None:
    sweep, gauges = f"sweep {tenant}", f"gauges {tenant}"
    assert store.get_sweep_position(sweep) == ""
    store.set_sweep_position(sweep, "acme#Jobs")
    store.set_sweep_position(gauges, "zeta#Jobs")
    assert (store.get_sweep_position(sweep), store.get_sweep_position(gauges)) == ("acme#Jobs", "zeta#Jobs")
    store.set_sweep_position(sweep, "")
    assert store.get_sweep_position(sweep) == ""


def test_of_many_workers_at_once_one_gets_the_slot(store: Store, tenant: str) -> None:
    with ThreadPoolExecutor(8) as workers:
        won = list(workers.map(lambda n: store.take_slot(tenant, QUEUE, Slot(0, f"w{n}", NOON + 9), NOON), range(8)))
    assert sum(won) == 1
