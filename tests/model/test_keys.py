"""Sort keys: reading a lane from its head is reading it in order."""

from __future__ import annotations

from millrace.model.keys import (
    READY,
    due_now,
    group_of,
    key_group,
    order_of,
    owner_of,
    partition,
    ready_place,
    sequence_order,
    spread,
    waiting_place,
)
from millrace.model.queue_spec import Ordering, QueueSpec


def test_higher_priority_sorts_first_then_order() -> None:
    spec = QueueSpec("Jobs")
    places = [
        ready_place("t", spec, key="", message_id="m", priority=priority, order=order)
        for priority, order in ((50, "b"), (200, "z"), (50, "a"), (0, "a"))
    ]
    assert [order_of(place) for place in sorted(places)] == ["z", "a", "b", "a"]
    assert all(place.sk.startswith(READY) for place in places)


def test_entries_of_one_key_are_together() -> None:
    spec = QueueSpec("Jobs", ordering=Ordering.PER_KEY, shards=4)
    first, second = (
        ready_place("t", spec, key="k", message_id=name, priority=0, order=sequence_order(number))
        for number, name in enumerate(("m", "n"))
    )
    assert (first.pk, group_of(first)) == (second.pk, group_of(second))
    assert first < second


def test_what_is_due_is_within_the_bound_of_now() -> None:
    assert waiting_place("p", 1_000, "x").sk <= due_now(1_000)
    assert waiting_place("p", 1_001, "x").sk > due_now(1_000)


def test_a_partition_names_its_tenant_and_queue() -> None:
    assert owner_of(partition("tenant", "Jobs", 3)) == ("tenant", "Jobs")


def test_shards_and_groups_are_stable() -> None:
    assert key_group("order-1") == f"{spread('order-1'):010x}"
    assert spread("order-1") == spread("order-1") != spread("order-2")
