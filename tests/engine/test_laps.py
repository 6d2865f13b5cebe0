"""A lap goes past every key once, in few reads, and the next one goes on where it stopped."""

from __future__ import annotations

from collections import Counter

import pytest

from millrace.engine import laps
from millrace.engine.enqueue import enqueue_all
from millrace.engine.laps import MAX_PAGE, Lap, grown
from millrace.engine.queue import Queue
from millrace.model.keys import END, READY
from millrace.model.message import Draft
from millrace.model.queue_spec import Ordering
from tests.conftest import Bench


def filled(bench: Bench, keys: int, each: int = 1) -> Queue:
    queue = bench.queue(ordering=Ordering.PER_KEY)
    enqueue_all(queue, [Draft(b"{}", key=f"key{key}") for key in range(keys) for _ in range(each)])
    return queue


def lap_of(queue: Queue, wanted: int = 5) -> Lap:
    return Lap(queue, queue.partitions()[0], READY, READY + END, wanted)


@pytest.mark.parametrize(("keys", "each"), [(1, 1), (3, 40), (60, 1)])
def test_every_key_is_met_once_a_lap(memory_bench: Bench, keys: int, each: int) -> None:
    lap = lap_of(filled(memory_bench, keys, each))
    pages = [page.items for page in lap.pages() if page.items]
    assert lap.came_round
    assert len({entry.key for page in pages for entry in page}) == keys
    begun = [page[0].key for page in pages]
    assert len(set(begun)) == len(begun), "a page begins behind the key in which the last one ended"


@pytest.mark.parametrize(("keys", "each"), [(1, 9), (10, 5), (40, 2), (7, 3)])
def test_of_every_key_as_many_are_met_as_are_wanted_of_each(memory_bench: Bench, keys: int, each: int) -> None:
    queue = filled(memory_bench, keys, each)
    lap = Lap(queue, queue.partitions()[0], READY, READY + END, 1, 3)
    met = Counter(entry.key for page in lap.pages() for entry in page.items)
    assert lap.came_round
    assert len(met) == keys
    assert min(met.values()) >= min(3, each)


def test_a_lap_that_reaches_its_bound_is_gone_on_with(memory_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laps, "STEPS", 2)
    queue = filled(memory_bench, 40)
    met: set[str] = set()
    for _ in range(40):
        lap = lap_of(queue, 1)
        met |= {entry.key for page in lap.pages() for entry in page.items}
        if len(met) == 40:
            break
    assert len(met) == 40
    assert not lap_of(queue, 1).came_round, "nothing was seen before a page was asked for"


def test_the_next_lap_begins_behind_the_key_that_had_its_turn(memory_bench: Bench) -> None:
    queue = filled(memory_bench, 10)
    lap = lap_of(queue)
    entries = [entry for page in lap.pages() for entry in page.items]
    lap.stop_behind(entries[3])
    (following,) = next(iter(lap_of(queue, 1).pages())).items
    assert following == entries[4]


def test_pages_grow_up_to_what_one_read_takes() -> None:
    assert (grown(1), grown(25), grown(40), grown(400)) == (50, 50, 80, MAX_PAGE)
