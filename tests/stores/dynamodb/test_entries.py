"""Entries over a connection that loses answers: a token's own write is recognised, anybody else's is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.message import Entry
from millrace.stores.interface import APPLIED, Refused, Unknown
from tests.conftest import NOON, Clock
from tests.faults.client import StoreOnFaultyClient, timed_out_after, timed_out_before
from tests.stores.samples import LEASE, Samples, claimed


@pytest.fixture
def held(store: StoreOnFaultyClient, samples: Samples) -> Entry:
    entry = samples.entry()
    store.put_entries([entry])
    taken = claimed(entry)
    assert store.claim_entries([taken], NOON) == [APPLIED]
    return taken


def test_a_claim_whose_answer_was_lost_is_the_claimants(store: StoreOnFaultyClient, samples: Samples) -> None:
    entry = samples.entry()
    store.put_entries([entry])
    store.faults.plan(timed_out_after)
    assert store.claim_entries([claimed(entry)], NOON) == [APPLIED]
    assert store.claim_entries([claimed(entry, "rival")], NOON) == [Refused(claimed(entry))]


def test_a_claim_needs_the_version_that_was_seen_and_a_lease_that_is_over(
    store: StoreOnFaultyClient, held: Entry
) -> None:
    rival = claimed(held, "rival", now=NOON + LEASE)
    assert store.claim_entries([rival], NOON + LEASE - 1) == [Refused(held)]
    assert store.claim_entries([replace(rival, version=held.version)], NOON + LEASE) == [Refused(held)]
    assert store.claim_entries([rival], NOON + LEASE) == [APPLIED]


def test_an_end_without_an_answer_is_believed_while_the_claim_is_live(
    store: StoreOnFaultyClient, held: Entry, clock: Clock
) -> None:
    store.faults.plan(timed_out_after)
    assert store.end_entries([held]) == [APPLIED]
    assert store.end_entries([held]) == [Refused(None)], "without silence, missing means that somebody else ended it"


def test_an_end_without_an_answer_is_not_believed_once_the_claim_is_over(
    store: StoreOnFaultyClient, held: Entry, clock: Clock
) -> None:
    clock.forward(LEASE)
    store.faults.plan(timed_out_after)
    assert store.end_entries([held]) == [Refused(None)]


def test_a_hold_is_recognised_by_what_it_wrote(store: StoreOnFaultyClient, held: Entry) -> None:
    released = replace(held.unclaimed(), version=held.version)
    store.faults.plan(timed_out_after)
    assert store.hold_entries([released], [held.token]) == [APPLIED]
    assert store.hold_entries([replace(held, due=5)], [held.token]) == [Refused(store.get_entry(held.place))]


def test_an_entry_is_dropped_only_as_it_was_written(store: StoreOnFaultyClient, samples: Samples) -> None:
    entry = samples.entry()
    store.put_entries([entry])
    assert store.drop_entries([replace(entry, nonce="another")]) == [Refused(entry)]
    assert store.drop_entries([replace(entry, version=entry.version - 1)]) == [Refused(entry)]
    assert store.drop_entries([entry]) == [APPLIED]
    assert store.drop_entries([entry]) == [APPLIED], "what is gone is dropped"


def test_a_transaction_that_never_got_an_answer_is_unknown(
    store: StoreOnFaultyClient, samples: Samples, held: Entry
) -> None:
    new, location = samples.moved(held)
    store.faults.plan(always=timed_out_before)
    assert isinstance(store.move_entry(held, new, location), Unknown)
    store.faults.plan()
    assert store.get_entry(held.place) == held


def test_a_lane_that_does_not_answer_is_left_after_a_second(store: StoreOnFaultyClient, samples: Samples) -> None:
    store.faults.plan(always=timed_out_before)
    began = store.time.now
    with pytest.raises(Exception, match="in time"):
        store.read_lane(samples.pk, "R#", "R#~", 5)
    assert store.time.now - began <= 1.0
