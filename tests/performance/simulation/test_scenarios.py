"""The figures of the simulation, asserted: they are the same on every machine.

A bound here is a promise about AWS as the model has it. `make simulate` prints the whole table.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.queue_spec import Ordering
from tests.performance.simulation.scenarios import BESIDE, Beside, Scenario, ceiling, longest_wait_ms, outage, run


def test_a_steady_load_starts_within_a_tenth_of_a_second_and_costs_what_it_should() -> None:
    figures = run(Scenario("steady", rate=100, seconds=4))
    assert (figures.accepted, figures.done) == (400, 400)
    assert figures.p50_ms < 40
    assert figures.p99_ms < 100
    assert figures.write_units < 5.8, "one message a request, with its result: credits and counters included"
    assert figures.throttled == 0


def test_the_same_seed_gives_the_same_figures() -> None:
    scenario = Scenario("steady", rate=100, seconds=1)
    assert run(scenario) == run(scenario)
    assert run(scenario) != run(replace(scenario, seed=2))


def test_what_a_killed_worker_held_runs_again_after_its_lease() -> None:
    figures = run(Scenario("kill", rate=50, seconds=4, workers=2, run_ms=200, kill_worker_at_s=2.0))
    assert figures.done == figures.accepted
    assert figures.recovery_ms is not None
    assert figures.recovery_ms < 31_000, "the queue's lease of 30 s and a second"


def test_a_backlog_drains_as_fast_as_its_partition_lets_it() -> None:
    figures = ceiling(Scenario("backlog"), 1_000)
    assert figures.done_per_s > 450, "two write units a message, of 1,000 a second"
    assert figures.claim_writes_a_win == 1.0


@pytest.mark.parametrize("seed", [1, 2])
def test_ten_workers_share_a_backlog_instead_of_racing_for_its_head(seed: int) -> None:
    """Half of what `make simulate` has: losses, which come at the beginning, weigh twice."""
    alone = Scenario("1 worker", keeps=False, seed=seed)
    together = ceiling(replace(alone, workers=10), 1_500)
    assert together.claim_writes_a_win < 1.3, "1.15 of 3,000; 1.95 where all try for the head"
    assert together.done_per_s > ceiling(alone, 1_500).done_per_s, "0.83 and 0.72 where throttled claims hold up others"


def test_ten_workers_at_a_steady_load_leave_each_message_to_one_of_them() -> None:
    figures = run(Scenario("steady", rate=200, workers=10))
    assert figures.claim_writes_a_win < 1.15, "3.3 where all try for the head"
    assert figures.p99_ms < 150


def test_a_fifo_queue_starts_each_message_after_the_one_before() -> None:
    figures = ceiling(Scenario("fifo", ordering=Ordering.FIFO), 120)
    assert figures.done_per_s > 60, "a run of 5 ms and a delete of 5 to 12; 31 where result and counters come first"
    assert ceiling(Scenario("fifo", ordering=Ordering.FIFO, run_ms=0.5), 120).done_per_s > 85


def test_a_fifo_queue_whose_handler_takes_batches_ends_several_at_once() -> None:
    batches = Scenario("fifo in batches", ordering=Ordering.FIFO, together=25)
    assert ceiling(replace(batches, together=5), 150).done_per_s >= 150, "95 where each is deleted by itself"
    figures = ceiling(batches, 800)
    assert figures.done_per_s > 300, "110 where each is deleted by itself"
    assert figures.write_units < 4.2, "one more a message than where each is deleted by itself"
    assert figures.throttled == 0, "with transactions of 25 some are, and billed again"


def test_a_queue_of_6_shards_takes_1_200_messages_a_second() -> None:
    """A sixteenth of the 20,000 of `make simulate`, shard by shard the same; what its counter is written for too."""
    scenario = Scenario("s", rate=1_260, seconds=2, batch=25, senders=6, workers=5, concurrency=20, shards=6)
    figures = run(scenario)
    assert figures.accepted_per_s >= 1_200
    assert figures.done_meanwhile_per_s >= 1_200
    assert figures.throttled == 0
    assert figures.p50_ms < 300, "workers keep up"
    assert figures.counter_writes <= 80, "106 where blocks and endings do not grow with the rate"


def test_a_queue_by_key_of_2_shards_takes_310_messages_a_second() -> None:
    """A sixteenth of the 5,000 of `make simulate`, shard by shard the same."""
    keyed = Scenario("k", rate=350, seconds=2, batch=5, senders=6, workers=4, shards=2, keys=1_250)
    figures = run(replace(keyed, ordering=Ordering.PER_KEY))
    assert figures.accepted_per_s >= 310
    assert figures.done_meanwhile_per_s >= 310
    assert figures.throttled == 0
    assert figures.p50_ms < 300
    assert figures.counter_writes <= 45, "62 where blocks and endings do not grow with the rate"


def test_an_outage_that_kills_500_a_second_is_not_throttled() -> None:
    figures = outage(1_000)
    assert figures.buried_per_s > 500
    assert figures.throttled == 0, "in one partition of the dead-letter table: hundreds"


@pytest.mark.parametrize("beside", BESIDE, ids=lambda beside: beside.name)
def test_a_healthy_message_starts_within_a_second_whatever_stands_beside_it(beside: Beside) -> None:
    count = min(beside.count, 2_000)  # `make simulate` has them all
    assert longest_wait_ms(replace(beside, count=count), healthy=3) < 1_000
