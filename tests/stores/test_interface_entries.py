"""Entries: put, drop, claim, end, hold, alone and in batches, on every store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from millrace.model.clock import system_entropy
from millrace.model.ids import random_token
from millrace.model.keys import END, READY
from millrace.model.message import Entry
from millrace.stores.interface import APPLIED, Applied, Refused, Store
from tests.conftest import NOON
from tests.stores.samples import LEASE, Samples, all_claimed, claimed


def read(store: Store, entries: list[Entry]) -> list[Entry | None]:
    """What lies in their places now."""
    (pk,) = {entry.place.pk for entry in entries}
    there = {entry.place: entry for entry in store.read_lane(pk, READY, READY + END, 100).items}
    return [there.get(entry.place) for entry in entries]


def put(store: Store, entries: list[Entry]) -> list[Entry]:
    assert store.put_entries(entries) == [APPLIED] * len(entries)
    return entries


def put_claimed(store: Store, entries: list[Entry], by: str = "mine") -> list[Entry]:
    held = all_claimed(put(store, entries), by)
    assert store.claim_entries(held, NOON) == [APPLIED] * len(entries)
    return held


def test_nothing_asked_is_nothing_done(store: Store) -> None:
    assert store.put_entries([]) == store.drop_entries([]) == store.end_entries([]) == []
    assert store.claim_entries([], NOON) == store.hold_entries([], []) == store.put_messages([]) == []
    store.put_results([])


def test_entry_is_read_back_as_it_was_put(store: Store, samples: Samples, count: int) -> None:
    entries = put(store, samples.entries(count))
    assert read(store, entries) == entries


def test_entry_is_found_by_its_place(store: Store, samples: Samples) -> None:
    (entry,) = put(store, [samples.entry()])
    assert store.get_entry(entry.place) == entry


def test_missing_entry_reads_as_none(store: Store, samples: Samples) -> None:
    assert store.get_entry(samples.entry().place) is None


def test_entries_are_found_by_their_places_at_once(store: Store, samples: Samples) -> None:
    entries = put(store, samples.entries(103))
    missing = samples.entry()
    places = [entry.place for entry in (*entries, missing, entries[0])]
    assert store.get_entries(places) == {entry.place: entry for entry in entries}
    assert store.get_entries([]) == {}


def test_entries_are_read_with_the_claim_that_was_just_written(store: Store, samples: Samples, count: int) -> None:
    held = put_claimed(store, samples.entries(count))
    assert store.get_entries([entry.place for entry in held]) == {entry.place: entry for entry in held}


def test_repeated_put_is_recognised(store: Store, samples: Samples, count: int) -> None:
    entries = put(store, samples.entries(count))
    assert store.put_entries(entries) == [APPLIED] * count


def test_put_where_another_lies_changes_nothing(store: Store, samples: Samples, count: int) -> None:
    entries = put(store, samples.entries(count))
    others = [replace(entry, nonce="other") for entry in entries]
    assert store.put_entries(others) == [Refused(entry) for entry in entries]
    assert read(store, entries) == entries


def test_each_put_of_a_batch_stands_for_itself(store: Store, samples: Samples) -> None:
    entries = samples.entries(30)
    taken = put(store, entries[::3])
    mixed = [replace(entry, nonce="other") if entry in taken else entry for entry in entries]
    expected = [Refused(entry) if entry in taken else APPLIED for entry in entries]
    assert store.put_entries(mixed) == expected
    assert read(store, entries) == entries


def test_same_place_twice_in_one_call(store: Store, samples: Samples) -> None:
    """Each element stands for itself, in the order given, also where two of them meet."""
    first, between = samples.entries(2)
    second = replace(first, nonce="other")
    assert store.put_entries([first, between, second, first]) == [APPLIED, APPLIED, Refused(first), APPLIED]
    held, rival = claimed(first), claimed(first, "rival")
    assert store.claim_entries([held, rival], NOON) == [APPLIED, Refused(held)]
    assert store.end_entries([held, held]) == [APPLIED, Refused(None)]


# -- drop -----------------------------------------------------------------------------------------------------------


def test_dropped_entry_is_gone(store: Store, samples: Samples, count: int) -> None:
    entries = put(store, samples.entries(count))
    assert store.drop_entries(entries) == [APPLIED] * count
    assert read(store, entries) == [None] * count


def test_dropping_what_is_not_there_has_succeeded(store: Store, samples: Samples, count: int) -> None:
    assert store.drop_entries(samples.entries(count)) == [APPLIED] * count


def test_claimed_entry_is_not_dropped(store: Store, samples: Samples, count: int) -> None:
    entries = samples.entries(count)
    held = put_claimed(store, entries)
    assert store.drop_entries(entries) == [Refused(entry) for entry in held]
    assert read(store, entries) == held


def test_entry_of_another_nonce_is_not_dropped(store: Store, samples: Samples, count: int) -> None:
    entries = put(store, samples.entries(count))
    assert store.drop_entries([replace(e, nonce="other") for e in entries]) == [Refused(e) for e in entries]
    assert read(store, entries) == entries


# -- claim ----------------------------------------------------------------------------------------------------------


def test_claim_is_written(store: Store, samples: Samples, count: int) -> None:
    held = put_claimed(store, samples.entries(count))
    assert read(store, held) == held


def test_repeated_claim_is_recognised_by_its_token(store: Store, samples: Samples, count: int) -> None:
    held = put_claimed(store, samples.entries(count))
    assert store.claim_entries(held, NOON) == [APPLIED] * count


def test_claim_of_a_missing_entry_makes_none(store: Store, samples: Samples, count: int) -> None:
    held = all_claimed(samples.entries(count))
    assert store.claim_entries(held, NOON) == [Refused(None)] * count
    assert read(store, held) == [None] * count


@pytest.mark.parametrize("step", [-1, 1])
def test_claim_by_a_wrong_version_changes_nothing(store: Store, samples: Samples, count: int, step: int) -> None:
    entries = put(store, samples.entries(count))
    wrong = [claimed(replace(entry, version=entry.version + step)) for entry in entries]
    assert store.claim_entries(wrong, NOON) == [Refused(entry) for entry in entries]
    assert read(store, entries) == entries


def test_live_claim_is_not_taken_over(store: Store, samples: Samples, count: int) -> None:
    held = put_claimed(store, samples.entries(count))
    rivals = all_claimed(held, "rival", now=NOON + LEASE - 1)
    assert store.claim_entries(rivals, NOON + LEASE - 1) == [Refused(entry) for entry in held]
    assert read(store, held) == held


def test_claim_that_ran_out_is_taken_over_to_the_millisecond(store: Store, samples: Samples, count: int) -> None:
    held = put_claimed(store, samples.entries(count))
    later = all_claimed(held, "later", now=NOON + LEASE)
    assert store.claim_entries(later, NOON + LEASE) == [APPLIED] * count
    assert read(store, held) == later


def test_each_claim_of_a_batch_stands_for_itself(store: Store, samples: Samples) -> None:
    free, missing, taken, stale = samples.entries(4)
    put(store, [free, stale])
    (held,) = put_claimed(store, [taken], "rival")
    wanted = [claimed(free), claimed(missing), claimed(held), claimed(replace(stale, version=9))]
    assert store.claim_entries(wanted, NOON) == [APPLIED, Refused(None), Refused(held), Refused(stale)]
    assert read(store, [free, missing, taken, stale]) == [wanted[0], None, held, stale]


def test_of_many_claims_at_once_one_wins(store: Store, samples: Samples) -> None:
    (entry,) = put(store, [samples.entry()])
    with ThreadPoolExecutor(8) as workers:
        outcomes = list(workers.map(lambda n: store.claim_entries([claimed(entry, f"w{n}")], NOON)[0], range(8)))
    assert sum(isinstance(outcome, Applied) for outcome in outcomes) == 1
    winner = next(n for n, outcome in enumerate(outcomes) if isinstance(outcome, Applied))
    assert store.get_entry(entry.place) == claimed(entry, f"w{winner}")


# -- end ------------------------------------------------------------------------------------------------------------


def test_ended_entry_is_gone(store: Store, samples: Samples, count: int) -> None:
    held = put_claimed(store, samples.entries(count))
    assert store.end_entries(held) == [APPLIED] * count
    assert read(store, held) == [None] * count


def test_end_with_a_stale_token_changes_nothing(store: Store, samples: Samples, count: int) -> None:
    held = put_claimed(store, samples.entries(count))
    stale = [replace(entry, token="older") for entry in held]
    assert store.end_entries(stale) == [Refused(entry) for entry in held]
    assert read(store, held) == held


def test_end_of_a_missing_entry_is_refused(store: Store, samples: Samples, count: int) -> None:
    """Not even the same end repeated: only the caller can tell whether it was the one that took it out."""
    held = put_claimed(store, samples.entries(count))
    store.end_entries(held)
    assert store.end_entries(held) == [Refused(None)] * count


def test_each_end_of_a_batch_stands_for_itself(store: Store, samples: Samples) -> None:
    held = put_claimed(store, samples.entries(28))
    mixed = [replace(entry, token="older") if n % 3 else entry for n, entry in enumerate(held)]
    assert store.end_entries(mixed) == [Refused(entry) if n % 3 else APPLIED for n, entry in enumerate(held)]
    assert read(store, held) == [entry if n % 3 else None for n, entry in enumerate(held)]


def test_a_hundred_end_together(store: Store, samples: Samples) -> None:
    held = put_claimed(store, samples.entries(100))
    token = random_token(system_entropy)
    assert store.end_together(held, token) == APPLIED
    assert read(store, held) == [None] * 100
    assert store.end_together(held, token) == APPLIED, "the same call again"
    assert store.end_together(held, random_token(system_entropy)) == Refused(None)


@pytest.mark.parametrize("position", [0, 3, 5])
def test_together_none_ends_where_one_is_stale_or_gone(store: Store, samples: Samples, position: int) -> None:
    held = put_claimed(store, samples.entries(6))
    mixed = [replace(entry, token="older") if n == position else entry for n, entry in enumerate(held)]
    assert store.end_together(mixed, random_token(system_entropy)) == Refused(None)
    assert read(store, held) == held
    store.end_entries([held[position]])
    assert store.end_together(held, random_token(system_entropy)) == Refused(None)
    assert read(store, held) == [None if n == position else entry for n, entry in enumerate(held)]


# -- hold -----------------------------------------------------------------------------------------------------------


def test_hold_extends_a_claim(store: Store, samples: Samples, count: int) -> None:
    held = put_claimed(store, samples.entries(count))
    longer = [replace(entry, until=entry.until + 1) for entry in held]
    assert store.hold_entries(longer, [entry.token for entry in held]) == [APPLIED] * count
    assert read(store, held) == longer


def test_hold_gives_a_claim_back(store: Store, samples: Samples, count: int) -> None:
    held = put_claimed(store, samples.entries(count))
    free = [replace(entry.unclaimed(), due=NOON + 7) for entry in held]
    assert store.hold_entries(free, [entry.token for entry in held]) == [APPLIED] * count
    assert read(store, held) == free


def test_hold_with_a_stale_token_changes_nothing(store: Store, samples: Samples, count: int) -> None:
    held = put_claimed(store, samples.entries(count))
    longer = [replace(entry, until=entry.until + 1) for entry in held]
    assert store.hold_entries(longer, ["older"] * count) == [Refused(entry) for entry in held]
    assert read(store, held) == held


def test_hold_of_a_missing_entry_makes_none(store: Store, samples: Samples, count: int) -> None:
    held = all_claimed(samples.entries(count))
    assert store.hold_entries(held, [entry.token for entry in held]) == [Refused(None)] * count
    assert read(store, held) == [None] * count


def test_hold_writes_the_claim_and_due_and_nothing_else(store: Store, samples: Samples, count: int) -> None:
    held = put_claimed(store, samples.entries(count))
    strayed = [replace(e, until=e.until + 1, due=5, attempts=99, version=99, priority=1, key="") for e in held]
    assert store.hold_entries(strayed, [entry.token for entry in held]) == [APPLIED] * count
    assert read(store, held) == [replace(entry, until=entry.until + 1, due=5) for entry in held]


def test_claim_writes_no_more_than_a_claim(store: Store, samples: Samples, count: int) -> None:
    entries = put(store, samples.entries(count))
    strayed = [replace(claimed(e), nonce="other", priority=1, key="", labels=(), expires_at=1) for e in entries]
    assert store.claim_entries(strayed, NOON) == [APPLIED] * count
    assert read(store, entries) == all_claimed(entries)
