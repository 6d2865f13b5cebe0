"""Schedules: each tick once, across overlapping sweeps, crashes, a day without sweeps and changes of the clock."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from millrace.admission.schedules import (
    BOX_MS,
    HORIZON_MS,
    LATE_MS,
    MAX_TICKS,
    enqueue_due,
    enqueue_ticks,
    progress_of,
    tick_message_id,
    tick_text,
)
from millrace.definitions import Definitions
from millrace.engine.claim import claim
from millrace.engine.finish import ack
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import status
from millrace.model.clock import DAY, MINUTE
from millrace.model.errors import StoreUnavailable
from tests.conftest import Bench
from tests.worker.definitions import compiled

HOUR = 60 * MINUTE
# On DynamoDB Local times lie far ahead: it deletes what is past its ttl by the real clock.
REPORTS = """
queue Reports {
  message_type { report: string  at: time }
  fed_by: api  drained_by: api
  idempotency { key: report  window_seconds: 1 }
}
"""


def defined(
    cron: str = "0 * * * *", timezone: str = "UTC", catch_up: str = "latest", queue: str = REPORTS
) -> Definitions:
    return compiled(
        f"""{queue}
        schedule Hourly {{
          cron: "{cron}"  timezone: "{timezone}"  queue: Reports  catch_up: {catch_up}
          message: {{"report": "all of " + schedule, "at": tick}}
        }}"""
    )


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


class Sweeps:
    """Sweeps of one deployment at a test's times."""

    def __init__(self, bench: Bench, definitions: Definitions) -> None:
        self.bench = bench
        self.definitions = definitions
        self.runtime: Runtime = bench.runtime

    @property
    def queue(self) -> Queue:
        return self.runtime.queue(self.bench.tenant, self.definitions.queue("Reports").spec)

    def __call__(self, when: str | None = None) -> int:
        if when is not None:
            self.bench.clock.now = at(when)
        return enqueue_due(self.runtime, self.definitions, self.bench.tenant)

    def taken(self) -> list[str]:
        """The ticks of what was enqueued, oldest first; done now, so that their keys are free."""
        held = claim(self.queue, owner="w", limit=100).claims
        ack(self.queue, [one.entry for one in held])
        return sorted(json.loads(one.message.body.data)["at"] for one in held)


@pytest.fixture
def sweeps(bench: Bench) -> Sweeps:
    return Sweeps(bench, defined())


def test_a_tick_is_enqueued_by_the_first_sweep_after_it_and_by_no_other(sweeps: Sweeps) -> None:
    sweeps("2046-01-05T10:20:30Z")  # seen for the first time: it begins now
    assert sweeps("2046-01-05T10:59:59Z") == 0
    assert sweeps("2046-01-05T11:00:10Z") == 1
    assert [sweeps("2046-01-05T11:01:10Z"), sweeps("2046-01-05T11:59:10Z")] == [0, 0]
    assert sweeps.taken() == ["2046-01-05T11:00:00.000Z"]
    schedule = sweeps.definitions.schedule("Hourly")
    progress = progress_of(sweeps.runtime.store, sweeps.bench.tenant, schedule)
    assert (tick_text(progress.last), tick_text(progress.next)) == (
        "2046-01-05T11:00:00.000Z",
        "2046-01-05T12:00:00.000Z",
    )
    found = status(sweeps.queue, tick_message_id(sweeps.bench.tenant, schedule, progress.last))
    assert (found.status.value, found.message.source) == ("done", "schedule:Hourly")


def test_a_tick_enqueued_again_is_the_same_message_also_past_the_queues_window(sweeps: Sweeps) -> None:
    """A sweep that died before it noted how far it came; and the message is done, its window long over."""
    sweeps("2046-01-05T10:20:00Z")
    before = sweeps.runtime.store.get_sweep_position(f"schedule#{sweeps.bench.tenant}#Hourly")
    sweeps("2046-01-05T11:00:10Z")
    assert sweeps.taken() == ["2046-01-05T11:00:00.000Z"]
    sweeps.runtime.store.set_sweep_position(f"schedule#{sweeps.bench.tenant}#Hourly", before)
    assert sweeps("2046-01-05T11:50:10Z") == 1
    assert sweeps.taken() == []


@pytest.mark.parametrize(
    ("catch_up", "caught_up"),
    [
        ("latest", ["2046-01-06T11:00:00.000Z"]),
        ("none", []),
        ("all", [f"2046-01-{5 + hour // 24:02d}T{hour % 24:02d}:00:00.000Z" for hour in range(11, 36)]),
    ],
)
def test_a_day_without_sweeps_is_caught_up_as_the_schedule_says(
    bench: Bench, catch_up: str, caught_up: list[str]
) -> None:
    sweeps = Sweeps(bench, defined(catch_up=catch_up))
    sweeps("2046-01-05T10:20:00Z")
    sweeps("2046-01-06T11:20:00Z")
    assert sweeps.taken() == caught_up
    sweeps("2046-01-06T12:00:40Z")
    assert sweeps.taken() == ["2046-01-06T12:00:00.000Z"]


def test_a_tick_that_is_a_little_late_is_not_missed(bench: Bench) -> None:
    sweeps = Sweeps(bench, defined(catch_up="none"))
    sweeps("2046-01-05T10:20:00Z")
    bench.clock.now = at("2046-01-05T11:00:00Z") + LATE_MS
    assert sweeps() == 1


@pytest.mark.parametrize("catch_up", ["latest", "all", "none"])
def test_ticks_between_two_sweeps_that_are_in_time_are_all_enqueued(bench: Bench, catch_up: str) -> None:
    """Two sweeps are a little more than a minute apart: a rule of every minute has two ticks between them."""
    sweeps = Sweeps(bench, defined(cron="* * * * *", catch_up=catch_up))
    sweeps("2046-01-05T10:00:59Z")
    assert sweeps("2046-01-05T10:02:00Z") == 2
    assert sweeps.taken() == ["2046-01-05T10:01:00.000Z", "2046-01-05T10:02:00.000Z"]


def test_slow_schedules_leave_the_sweep_its_time_and_each_has_its_turn(memory_bench: Bench) -> None:
    names = ("A", "B", "C")
    rule = 'cron: "* * * * *"  queue: Reports  message: {"report": "r", "at": tick}'
    definitions = compiled(REPORTS + " ".join(f"schedule {name} {{ {rule} }}" for name in names))
    sweeps = Sweeps(memory_bench, definitions)
    sweeps("2046-01-05T10:00:00Z")
    seen: list[str] = []
    put_messages = memory_bench.store.put_messages

    def slow(messages: Any) -> Any:
        seen.extend(message.source for message in messages)
        memory_bench.clock.forward(BOX_MS)
        return put_messages(messages)

    memory_bench.store.put_messages = slow  # type: ignore[method-assign]
    served = []
    for minute in range(1, 4):
        seen.clear()
        sweeps(f"2046-01-05T10:0{minute}:00Z")
        served.append(set(seen))
    assert sorted(served, key=sorted) == [{f"schedule:{name}"} for name in names]


def test_what_is_caught_up_has_bounds(memory_bench: Bench) -> None:
    """A hundred in a sweep, the next goes on; nothing from before the traces of messages would be gone."""
    sweeps = Sweeps(memory_bench, defined(cron="*/30 * * * *", catch_up="all"))
    sweeps("2046-01-05T10:20:00Z")
    memory_bench.clock.now += 30 * DAY
    made = [sweeps() for _ in range(4)]
    assert made == [MAX_TICKS, MAX_TICKS, HORIZON_MS // (30 * MINUTE) - 2 * MAX_TICKS, 0]


@pytest.mark.parametrize(
    ("cron", "zone", "days", "ticks"),
    [
        # Berlin, 29 March 2026: 02:00 becomes 03:00. 25 October: 03:00 becomes 02:00.
        ("0 3 * * *", "Europe/Berlin", "2026-03-28 2026-03-30", ["28T02:00", "29T01:00", "30T01:00"]),
        ("30 2 * * *", "Europe/Berlin", "2026-03-28 2026-03-30", ["28T01:30", "29T01:00", "30T00:30"]),
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 2026-10-26", ["24T00:30", "25T00:30", "26T01:30"]),
        ("0 4 * * *", "America/New_York", "2026-11-01 2026-11-02", ["01T09:00", "02T09:00"]),
    ],
)
def test_a_change_of_the_clock_neither_drops_nor_doubles_a_tick(
    memory_bench: Bench, cron: str, zone: str, days: str, ticks: list[str]
) -> None:
    """Swept every ten minutes by two, one of which has forgotten how far it came."""
    sweeps = Sweeps(memory_bench, defined(cron=cron, timezone=zone, catch_up="all"))
    first, last = days.split()
    memory_bench.clock.now = at(f"{first}T00:00:00Z")
    sweeps()
    note = f"schedule#{memory_bench.tenant}#Hourly"
    taken: list[str] = []
    while memory_bench.clock.now < at(f"{last}T00:00:00Z") + DAY:
        memory_bench.clock.forward(10 * MINUTE)
        before = memory_bench.store.get_sweep_position(note)
        sweeps()
        taken += sweeps.taken()
        if memory_bench.clock.now % HOUR == 0:
            memory_bench.store.set_sweep_position(note, before)
    month = first[:8]
    assert taken == [f"{month}{tick}:00.000Z" for tick in ticks]


def test_a_schedule_whose_rule_is_changed_begins_anew(bench: Bench) -> None:
    Sweeps(bench, defined())("2046-01-05T10:20:00Z")
    changed = Sweeps(bench, defined(cron="*/5 * * * *", catch_up="all"))
    assert changed("2046-01-05T10:50:00Z") == 0
    assert changed("2046-01-05T10:55:00Z") == 1


def test_a_full_queue_is_tried_again_and_keeps_no_other_schedule_waiting(bench: Bench) -> None:
    narrow = REPORTS.replace("fed_by: api", "retention { max_depth: 1 }  fed_by: api")
    definitions = compiled(
        narrow
        + """
        queue Others { message_type { n: int }  fed_by: api  drained_by: api }
        schedule A { cron: "0 * * * *"  queue: Reports  catch_up: all  message: {"report": "a", "at": tick} }
        schedule B { cron: "0 * * * *"  queue: Others  message: {"n": 1} }
        """
    )
    sweeps = Sweeps(bench, definitions)
    sweeps("2046-01-05T10:20:00Z")
    assert sweeps("2046-01-05T12:00:10Z") == 1, "the other's"
    assert sweeps.taken() == ["2046-01-05T11:00:00.000Z"]
    bench.runtime.credits.give_back()
    bench.clock.forward(MINUTE)
    sweeps()
    assert sweeps.taken() == ["2046-01-05T12:00:00.000Z"]


def test_a_store_that_does_not_answer_loses_no_tick(memory_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps = Sweeps(memory_bench, defined())
    sweeps("2046-01-05T10:20:00Z")

    def silent(*_: Any) -> Any:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(memory_bench.store, "put_messages", silent)
        assert sweeps("2046-01-05T11:00:10Z") == 0
    memory_bench.clock.forward(10 * MINUTE)
    assert sweeps() == 1
    assert sweeps.taken() == ["2046-01-05T11:00:00.000Z"]


def test_two_sweeps_at_once_make_one_message(bench: Bench) -> None:
    sweeps = Sweeps(bench, defined())
    sweeps("2046-01-05T10:20:00Z")
    bench.clock.now = at("2046-01-05T11:00:10Z")
    schedule = sweeps.definitions.schedule("Hourly")
    before = bench.store.get_sweep_position(f"schedule#{bench.tenant}#Hourly")
    enqueue_ticks(bench.another_process(), sweeps.definitions, schedule, bench.tenant)
    bench.store.set_sweep_position(f"schedule#{bench.tenant}#Hourly", before)
    enqueue_ticks(bench.another_process(), sweeps.definitions, schedule, bench.tenant)
    assert sweeps.taken() == ["2046-01-05T11:00:00.000Z"]


def test_a_schedule_feeds_the_tenant_that_it_names(bench: Bench) -> None:
    named = compiled(
        REPORTS
        + """
        tenant acme { }
        schedule S { cron: "0 * * * *"  queue: Reports  tenant: "acme"  message: {"report": "r", "at": tick} }
        """
    )
    bench.clock.now = at("2046-01-05T10:20:00Z")
    enqueue_due(bench.runtime, named, bench.tenant)
    bench.clock.now = at("2046-01-05T11:00:20Z")
    enqueue_due(bench.runtime, named, bench.tenant)
    acme = bench.runtime.queue("acme", named.queue("Reports").spec)
    assert len(claim(acme, owner="w", limit=5).claims) == 1


def test_a_tick_is_spelled_in_utc() -> None:
    assert tick_text(int(datetime(2026, 3, 29, 1, tzinfo=UTC).timestamp() * 1000)) == "2026-03-29T01:00:00.000Z"
