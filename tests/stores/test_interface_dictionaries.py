"""Dictionaries and samples of bodies, on every store: kept under their names, and one of two reviews wins."""

from __future__ import annotations

import pytest

from millrace.model.dictionary import MAX_CONTENT, Dictionary, dictionary_of
from millrace.model.queue_state import CreditRequest
from millrace.stores.interface import Store
from tests.conftest import NOON

QUEUE = "Jobs"
FIRST, SECOND = Dictionary(b"first").stored(NOON), Dictionary(bytes(range(256)) * 126).stored(NOON)


def test_a_dictionary_comes_back_under_its_name_and_queue(store: Store, tenant: str) -> None:
    for dictionary in (FIRST, SECOND):
        store.put_dictionary(tenant, QUEUE, dictionary)
    assert store.get_dictionary(tenant, QUEUE, FIRST.name) == FIRST
    found = store.get_dictionary(tenant, QUEUE, SECOND.name)
    assert found == SECOND
    assert dictionary_of(found) is not None
    assert store.get_dictionary(tenant, "Other", FIRST.name) is None
    assert store.get_dictionary(f"{tenant}x", QUEUE, FIRST.name) is None
    assert store.get_dictionary(tenant, QUEUE, "0" * 32) is None


def test_its_use_is_prolonged_in_place(store: Store, tenant: str) -> None:
    later = Dictionary(b"first").stored(NOON + 1)
    store.put_dictionary(tenant, QUEUE, FIRST)
    store.put_dictionary(tenant, QUEUE, later)
    assert store.get_dictionary(tenant, QUEUE, FIRST.name) == later


@pytest.mark.parametrize("before", ["", "a" * 32])
def test_of_two_reviews_one_names_its_dictionary(store: Store, tenant: str, before: str) -> None:
    seen = store.get_queue_state(tenant, QUEUE)
    if before:
        assert store.set_dictionary(seen, before, NOON - 1)
        seen = store.get_queue_state(tenant, QUEUE)
    assert store.set_dictionary(seen, "b" * 32, NOON)
    assert not store.set_dictionary(seen, "c" * 32, NOON)
    state = store.get_queue_state(tenant, QUEUE)
    assert (state.dictionary, state.reviewed_at) == ("b" * 32, NOON)
    assert store.set_dictionary(state, "", NOON + 1)
    assert not store.set_dictionary(state, "d" * 32, NOON + 2)
    assert store.get_queue_state(tenant, QUEUE).dictionary == ""


def test_whoever_takes_credits_hears_of_the_dictionary(store: Store, tenant: str) -> None:
    store.set_dictionary(store.get_queue_state(tenant, QUEUE), "b" * 32, NOON)
    state = store.take_credits(tenant, QUEUE, CreditRequest(1, 10, NOON))
    assert getattr(state, "dictionary", None) == "b" * 32


def test_a_sample_takes_the_place_of_the_one_before(store: Store, tenant: str) -> None:
    assert store.get_body_sample(tenant, QUEUE) == ()
    ids = tuple(f"{number:064x}" for number in range(300))
    store.put_body_sample(tenant, QUEUE, ids, NOON)
    assert store.get_body_sample(tenant, QUEUE) == ids
    store.put_body_sample(tenant, QUEUE, (), NOON)
    assert store.get_body_sample(tenant, QUEUE) == ()


def test_the_largest_dictionary_fits(store: Store, tenant: str) -> None:
    content = b"".join(bytes([number % 251]) for number in range(MAX_CONTENT))
    store.put_dictionary(tenant, QUEUE, Dictionary(content).stored(NOON))
    found = store.get_dictionary(tenant, QUEUE, Dictionary(content).name)
    assert found is not None
    assert dictionary_of(found) is not None
