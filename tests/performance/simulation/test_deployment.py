"""A whole deployment in virtual time: what wakes it, what is killed in it, and what it sweeps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millrace.admission.schedules import tick_message_id
from millrace.worker.slots import SLOT_LEASE_MS
from tests.performance.simulation.deployment import MAX_ATTEMPTS, Deployment, beside_a_sweep
from tests.performance.simulation.scenarios import TENANT, World, dead_letters, world
from tests.performance.simulation.virtual_time import NOON
from tests.worker.definitions import TYPE, compiled

LEASE_MS = 30_000
SCHEDULED = compiled(
    f"""queue Quick {{ {TYPE}  lease_seconds: 30  map_to: command Thing.Do {{ n: n }} }}
    schedule Minutely {{ cron: "* * * * *"  queue: Quick  catch_up: all  message: {{"n": 5}} }}"""
)


@pytest.fixture
def one() -> Iterator[World]:
    with world(seed=7) as made:
        yield made


def test_a_queue_that_drains_for_a_minute_delays_no_other(one: World) -> None:
    """All records come through one lane of the stream, which waits for the invocation that it started."""
    deployment = Deployment(one, shards=1, lanes=1)
    deployment.stream.attach(one.dynamodb)
    slow = [deployment.send("Slow", 1_000, at_s=0) for _ in range(60)]
    quick = [deployment.send("Quick", 5, at_s=at) for at in (5.0, 20.0, 35.0, 50.0)]
    one.time.run(90_000)
    assert max(deployment.wait_ms(ids) for ids in quick) < 1_000
    assert max(one.done_at[ids[0]] for ids in slow) - NOON > 55_000, "the other queue was at work all the time"
    assert deployment.stream.failed == 0
    assert deployment.stream.iterator_age_ms < 1_500


def test_what_a_killed_worker_held_runs_again_and_its_place_is_free(one: World) -> None:
    deployment = Deployment(one)
    deployment.stream.attach(one.dynamodb)
    held = [deployment.send("Leased", 25_000, at_s=0) for _ in range(3)]
    one.time.run(5_000)
    assert deployment.cloud.kill_running("worker") == 1
    killed = one.time.now
    after = deployment.send("Leased", 5, at_s=5 + SLOT_LEASE_MS / 1000)
    one.time.run(120_000)
    assert deployment.wait_ms(after) < 1_000, "the slot is free within its own lease"
    again = [[at for at in one.started_at[ids[0]] if at > killed] for ids in held]
    assert [len(starts) for starts in again] == [1, 1, 1]
    assert max(starts[0] for starts in again) - killed < LEASE_MS + 5_000
    assert all(ids[0] in one.done_at for ids in held)


def test_the_sweep_alone_finds_what_a_killed_worker_held(one: World) -> None:
    deployment = Deployment(one)
    deployment.stream.attach(one.dynamodb)
    held = deployment.send("Leased", 25_000, at_s=0)
    one.time.run(10_000)
    assert deployment.cloud.kill_running("worker") == 1
    one.time.run(52_000)
    assert len(one.started_at[held[0]]) == 2, "with the next minute"


def test_a_sweep_comes_round_to_every_queue_and_delays_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 queues that hold something, and a tenth of a sweep's time, stand for 20,000; `make simulate` has those."""
    figures = beside_a_sweep(2_000, monkeypatch, box_ms=4_000)
    assert figures.rounds == 2
    assert figures.longest_ms < 1_000
    assert figures.found_ms < 130_000, "by the second sweep"


def test_messages_that_always_fail_keep_no_good_one_waiting(one: World) -> None:
    """Twelve customers' messages fail, one after another; they open no breaker, and each has its attempts."""
    deployment = Deployment(one)
    deployment.stream.attach(one.dynamodb)
    poison = [deployment.send("Keyed", -1 - number, at_s=0) for number in range(12)]
    good = [deployment.send("Keyed", 5 + number, at_s=3.0 + number) for number in range(3)]
    one.time.run(120_000)
    assert max(map(deployment.wait_ms, good)) < 1_000
    assert {len(one.started_at[ids[0]]) for ids in poison} == {MAX_ATTEMPTS}
    buried = dead_letters(one, one.runtime().queue(TENANT, deployment.spec("Keyed")))
    assert sorted(dead_letter.message.id for dead_letter in buried) == sorted(ids[0] for ids in poison)


def test_in_normal_operation_no_wake_up_fails_or_is_late(one: World) -> None:
    deployment = Deployment(one)
    deployment.stream.attach(one.dynamodb)
    ids = [
        deployment.send(queue, 200, at_s=number / 4, tenant=tenant)
        for number in range(200)
        for tenant, queue in (("a", "Quick"), ("b", "Leased"))
    ]
    one.time.run(75_000)
    waits = sorted(deployment.wait_ms(one_id) for one_id in ids)
    assert deployment.stream.failed == 0
    assert deployment.stream.iterator_age_ms < 1_000
    assert waits[-1] < 1_500
    assert waits[len(waits) // 2] < 300


def test_every_tick_of_an_hour_is_one_message_whatever_sweeps_are_killed(one: World) -> None:
    """Sweeps are killed at another moment of each minute, and every third is doubled."""
    deployment = Deployment(one, definitions=SCHEDULED)
    deployment.stream.attach(one.dynamodb)
    one.time.run(119_000)  # the first sweep sees the schedule
    killed = 0
    for minute in range(2, 62):
        one.time.run(NOON + 60_000 * minute - one.time.now)
        if minute % 3 == 0:
            deployment.cloud.invoke_async("worker", {"sweep": True})
        one.time.run((minute * 37) % 600)
        killed += deployment.cloud.kill_running("worker")
    one.time.run(NOON + 65 * 60_000 + 30_000 - one.time.now)
    ticks = [round(NOON) + 60_000 * minute for minute in range(2, 66)]
    schedule = SCHEDULED.schedule("Minutely")
    assert killed > 20
    assert set(one.done_at) == {tick_message_id(TENANT, schedule, tick) for tick in ticks}
