"""Erasing a message: all that is kept under its id in one step, by its nonce and its entry's token. On every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.message import SEALED, Message, MessageLocation
from millrace.stores.interface import APPLIED, Erasure, Refused, Store
from tests.conftest import NOON
from tests.stores.samples import Samples, claimed


def erasure_of(samples: Samples, message: Message) -> Erasure:
    trace = MessageLocation(message.id, message.nonce, None, NOON // 1000 + 9, purged_at=NOON)
    return Erasure(message.husk(samples.pk), trace)


@pytest.fixture
def message(store: Store, samples: Samples) -> Message:
    """A message with all that can be kept under its id, and an entry that somebody holds."""
    held = claimed(samples.entry())
    message = samples.message(held)
    store.put_entries([held])
    store.put_messages([message])
    store.put_results([samples.result(held.id, nonce=held.nonce)])
    store.put_workflow_state(held, replace(samples.workflow_state(), nonce=held.nonce), NOON)
    store.move_entry(held, held, replace(samples.moved(held)[1], place=held.place))
    return message


def test_a_husk_takes_the_place_of_all_that_was_kept(store: Store, samples: Samples, message: Message) -> None:
    erasure = erasure_of(samples, message)
    assert store.erase_message(erasure) == APPLIED
    found = store.get_records(message.id)
    assert (found.message, found.location) == (erasure.husk, erasure.trace)
    assert (found.result, found.workflow_state) == (None, None)
    assert store.get_messages([message.id])[message.id].erased
    assert store.get_entry(message.place), "it was not asked for"


def test_an_entry_goes_with_its_message_where_it_holds_the_token(
    store: Store, samples: Samples, message: Message
) -> None:
    entry = store.get_entry(message.place)
    assert entry
    erasure = replace(erasure_of(samples, message), entry=replace(entry, token="another"))
    assert store.erase_message(erasure) == Refused(entry)
    idle = replace(erasure, entry=entry, idle_at=NOON)
    assert store.erase_message(idle) == Refused(entry), "somebody holds it"
    assert store.get_records(message.id).message == message, "all of it or nothing"
    assert store.erase_message(replace(idle, idle_at=entry.until)) == APPLIED
    assert store.get_entry(message.place) is None
    assert store.erase_message(replace(idle, idle_at=0)) == Refused(None)


def test_another_message_of_the_same_id_is_left_alone(store: Store, samples: Samples, message: Message) -> None:
    found = store.get_records(message.id)
    assert store.erase_message(erasure_of(samples, replace(message, nonce="another"))) == Refused(None)
    store.drop_records(message.id, "another")
    assert store.get_records(message.id) == found
    store.drop_records(message.id, message.nonce)
    left = store.get_records(message.id)
    assert (left.message, left.location, left.result, left.workflow_state) == (message, None, None, None)
    store.drop_records(message.id, message.nonce)


def test_a_seal_keeps_its_own_results_out_and_no_others(store: Store, samples: Samples, message: Message) -> None:
    seal = samples.result(message.id, nonce=message.nonce, finished_at=SEALED, snapshot=b"")
    late = samples.result(message.id, nonce=message.nonce, finished_at=NOON + 1)
    other = samples.result("other")
    assert store.erase_message(replace(erasure_of(samples, message), seal=seal)) == APPLIED
    for results in ([late], [late, other]):
        store.put_results(results)
        assert store.get_records(message.id).result == seal
    later = replace(late, nonce="the next message")
    store.put_results([later])
    assert store.get_records(message.id).result == later


def test_what_is_known_not_to_be_there_is_not_paid_for(store: Store, samples: Samples, message: Message) -> None:
    erasure = replace(erasure_of(samples, message), result=False, workflow_state=False)
    assert store.erase_message(erasure) == APPLIED
    found = store.get_records(message.id)
    assert found.result
    assert found.workflow_state
