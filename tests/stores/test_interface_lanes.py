"""Reading lanes and dead letters: order, bounds, paging, on every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.keys import END, READY, WAITING, due_now, partition, ready_place, waiting_place
from millrace.model.message import DeadLetter, Entry, Place
from millrace.model.queue_spec import QueueSpec
from millrace.stores.interface import Store
from tests.conftest import NOON
from tests.stores.samples import Samples, claimed


def lane(store: Store, samples: Samples, skeys: list[str], shard: int = 0) -> list[Entry]:
    pk = partition(samples.tenant, samples.queue, shard)
    entries = [samples.entry(place=Place(pk, sk)) for sk in skeys]
    store.put_entries(entries)
    return entries


def keys(entries: tuple[Entry, ...]) -> list[str]:
    return [entry.place.sk for entry in entries]


def read_to_end(store: Store, pk: str, after: str, upto: str, limit: int) -> list[str]:
    found: list[str] = []
    while True:
        page = store.read_lane(pk, after, upto, limit)
        assert len(page.items) <= limit
        found += keys(page.items)
        if page.next is None:
            return found
        assert after < page.next <= upto, "each page begins behind the one before"
        after = page.next


def test_lane_is_read_in_order_whatever_the_order_of_writing(store: Store, samples: Samples) -> None:
    lane(store, samples, ["R#0003#c", "R#0001#z", "R#0002#b", "R#0001#a", "R#9999#0"])
    page = store.read_lane(samples.pk, READY, READY + END, 10)
    assert keys(page.items) == ["R#0001#a", "R#0001#z", "R#0002#b", "R#0003#c", "R#9999#0"]
    assert page.next is None


def test_lower_bound_is_left_out_and_upper_bound_included(store: Store, samples: Samples) -> None:
    lane(store, samples, ["R#1", "R#2", "R#2#x", "R#3", "R#3#x", "R#4"])
    assert keys(store.read_lane(samples.pk, "R#2", "R#3", 10).items) == ["R#2#x", "R#3"]


@pytest.mark.parametrize(("after", "upto"), [("R#2", "R#2"), ("R#3", "R#1"), ("R#7", "R#8")])
def test_empty_stretch_has_no_entries(store: Store, samples: Samples, after: str, upto: str) -> None:
    lane(store, samples, ["R#1", "R#2", "R#3"])
    page = store.read_lane(samples.pk, after, upto, 10)
    assert (page.items, page.next) == ((), None)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8])
def test_pages_together_hold_each_entry_once(store: Store, samples: Samples, limit: int) -> None:
    written = [f"R#{number:04d}" for number in range(7)]
    lane(store, samples, written)
    assert read_to_end(store, samples.pk, READY, READY + END, limit) == written


def test_lanes_and_partitions_keep_apart(store: Store, samples: Samples) -> None:
    lane(store, samples, ["R#1", "W#1"])
    lane(store, samples, ["R#2", "W#2"], shard=1)
    assert keys(store.read_lane(samples.pk, READY, READY + END, 10).items) == ["R#1"]
    assert keys(store.read_lane(samples.pk, WAITING, WAITING + END, 10).items) == ["W#1"]
    assert keys(store.read_lane(partition(samples.tenant, samples.queue, 1), READY, READY + END, 10).items) == ["R#2"]


def test_waiting_lane_up_to_now(store: Store, samples: Samples) -> None:
    places = [waiting_place(samples.pk, NOON + delta, "f" * 32) for delta in (-1, 0, 1)]
    lane(store, samples, [place.sk for place in places])
    assert keys(store.read_lane(samples.pk, WAITING, due_now(NOON), 10).items) == [place.sk for place in places[:2]]


def test_ready_lane_has_higher_priorities_first(store: Store, samples: Samples) -> None:
    spec = QueueSpec(samples.queue)
    places = [
        ready_place(samples.tenant, spec, key="", message_id="m", priority=priority, order=order)
        for priority, order in [(9999, "2"), (200, "1"), (50, "1"), (50, "3"), (0, "0")]
    ]
    lane(store, samples, [place.sk for place in reversed(places)])
    assert keys(store.read_lane(samples.pk, READY, READY + END, 10).items) == [place.sk for place in places]


def test_reading_sees_the_write_before_it(store: Store, samples: Samples) -> None:
    (entry,) = lane(store, samples, ["R#1"])
    held = claimed(entry)
    store.claim_entries([held], NOON)
    assert store.read_lane(samples.pk, READY, READY + END, 10).items == (held,)
    store.end_entries([held])
    assert store.read_lane(samples.pk, READY, READY + END, 10).items == ()


# -- dead letters ---------------------------------------------------------------------------------------------------


def bury(store: Store, samples: Samples, count: int) -> list[DeadLetter]:
    dead_letters = []
    for number in range(count):
        held = claimed(samples.entry())
        store.put_entries([held])
        dead_letter = samples.dead_letter(samples.message(held), failed_at=NOON + number)
        store.bury_entry(held, samples.buried(dead_letter), dead_letter)
        dead_letters.append(dead_letter)
    return dead_letters


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 5, 6])
def test_dead_letters_page_both_ways(store: Store, samples: Samples, limit: int, newest_first: bool) -> None:
    dead_letters = bury(store, samples, 5)
    found: list[DeadLetter] = []
    after, upto = f"{NOON:013d}", f"{NOON + 99:013d}"
    for _ in range(20):
        page = store.read_dead_letters(samples.tenant, samples.queue, after, upto, limit, newest_first=newest_first)
        assert len(page.items) <= limit
        found += page.items
        if page.next is None:
            break
        assert after < page.next < upto, "each page begins behind the one before"
        after, upto = (after, page.next) if newest_first else (page.next, upto)
    else:
        pytest.fail("the pages never end")
    assert found == (dead_letters[::-1] if newest_first else dead_letters)


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("limit", [1, 7, 40, 100])
def test_many_dead_letters_are_listed_in_order(store: Store, samples: Samples, limit: int, newest_first: bool) -> None:
    """Wherever they lie, and also those that failed in the same millisecond."""
    ids = [f"m{number:02d}" for number in range(40)]
    for number, name in enumerate(ids):
        held = claimed(samples.entry(id=name))
        store.put_entries([held])
        dead_letter = samples.dead_letter(samples.message(held), failed_at=NOON + number // 4)
        store.bury_entry(held, samples.buried(dead_letter), dead_letter)
    found: list[str] = []
    after, upto = f"{NOON:013d}", f"{NOON + 99:013d}"
    while True:
        page = store.read_dead_letters(samples.tenant, samples.queue, after, upto, limit, newest_first=newest_first)
        found += [dead_letter.message.id for dead_letter in page.items]
        if page.next is None:
            break
        after, upto = (after, page.next) if newest_first else (page.next, upto)
    assert found == (ids[::-1] if newest_first else ids)


@pytest.mark.parametrize("newest_first", [False, True])
def test_bounds_of_dead_letters_are_left_out(store: Store, samples: Samples, newest_first: bool) -> None:
    dead_letters = bury(store, samples, 4)
    page = store.read_dead_letters(
        samples.tenant, samples.queue, dead_letters[0].sk, dead_letters[3].sk, 10, newest_first=newest_first
    )
    assert list(page.items) == (dead_letters[2:0:-1] if newest_first else dead_letters[1:3])
    assert store.read_dead_letters(samples.tenant, samples.queue, "2", "1", 10, newest_first=newest_first).items == ()


def test_dead_letters_of_queues_and_tenants_keep_apart(store: Store, samples: Samples) -> None:
    (dead_letter,) = bury(store, samples, 1)
    bury(store, Samples(samples.tenant, "Others"), 1)
    bury(store, Samples(f"{samples.tenant}x"), 1)
    assert store.read_dead_letters(samples.tenant, samples.queue, "", END, 10).items == (dead_letter,)
    assert store.get_dead_letter(samples.tenant, "Elsewhere", dead_letter.sk) is None


def test_replay_is_marked_on_the_dead_letter(store: Store, samples: Samples) -> None:
    (dead_letter,) = bury(store, samples, 1)
    marked = replace(dead_letter, replayed_at=NOON + 5, replayed_as="new-message", replay_job="job-1")
    assert store.mark_replayed(marked) is True
    assert store.get_dead_letter(samples.tenant, samples.queue, dead_letter.sk) == marked


def test_only_the_first_replay_of_a_dead_letter_is_told_as_such(store: Store, samples: Samples) -> None:
    (dead_letter,) = bury(store, samples, 1)
    assert store.mark_replayed(replace(dead_letter, replayed_at=NOON, replayed_as="m2", replay_job="j1")) is True
    later = replace(dead_letter, replayed_at=NOON + 1, replayed_as="m3", replay_job="j2")
    assert store.mark_replayed(later) is False
    assert store.get_dead_letter(samples.tenant, samples.queue, dead_letter.sk) == later


def test_a_dead_letter_that_was_replayed_since_it_was_read_is_not_deleted(store: Store, samples: Samples) -> None:
    (dead_letter,) = bury(store, samples, 1)
    marked = replace(dead_letter, replayed_at=NOON, replayed_as="m2", replay_job="j1")
    store.mark_replayed(marked)
    assert store.delete_dead_letter(dead_letter) is False
    assert store.delete_dead_letter(marked) is True


def test_marking_a_missing_dead_letter_makes_none(store: Store, samples: Samples) -> None:
    dead_letter = samples.dead_letter(replayed_at=NOON)
    assert store.mark_replayed(dead_letter) is False
    assert store.get_dead_letter(samples.tenant, samples.queue, dead_letter.sk) is None


def test_marking_changes_nothing_but_the_replay(store: Store, samples: Samples) -> None:
    (dead_letter,) = bury(store, samples, 1)
    store.mark_replayed(replace(dead_letter, replayed_at=NOON, error="other", attempts=99))
    assert store.get_dead_letter(samples.tenant, samples.queue, dead_letter.sk) == replace(
        dead_letter, replayed_at=NOON
    )


def test_dead_letter_is_deleted_once(store: Store, samples: Samples) -> None:
    first, second = bury(store, samples, 2)
    assert store.delete_dead_letter(first) is True
    assert store.delete_dead_letter(first) is False
    assert store.read_dead_letters(samples.tenant, samples.queue, "", END, 10).items == (second,)
