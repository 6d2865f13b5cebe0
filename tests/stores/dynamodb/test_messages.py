"""Messages over a connection that loses answers: committed once, and a snapshot is never worth an error."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.model.message import Message
from millrace.stores.interface import APPLIED, Refused, Unknown
from tests.faults.client import RequestFault, StoreOnFaultyClient, refused, throttled, timed_out_after, timed_out_before
from tests.stores.samples import Samples


def test_a_commit_whose_answer_was_lost_is_recognised_by_its_nonce(
    store: StoreOnFaultyClient, samples: Samples
) -> None:
    message = samples.message()
    store.faults.plan(timed_out_after)
    assert store.put_messages([message]) == [APPLIED]
    assert store.put_messages([replace(message, nonce="another")]) == [Refused(message)]


@pytest.fixture
def pair(store: StoreOnFaultyClient, samples: Samples) -> tuple[Message, Message]:
    """A message, and one of the same id that is to replace it and whose entry is there."""
    old = samples.message()
    entry = samples.entry(id=old.id)
    store.put_messages([old])
    store.put_entries([entry])
    return old, samples.message(entry, nonce=entry.nonce)


def test_a_replacement_whose_answer_was_lost_is_recognised(
    store: StoreOnFaultyClient, pair: tuple[Message, Message]
) -> None:
    old, new = pair
    store.faults.plan(timed_out_after)
    assert store.replace_message(new, old.nonce) == APPLIED
    assert store.get_messages([old.id]) == {old.id: new}


def test_a_replacement_without_its_entry_or_of_another_message_changes_nothing(
    store: StoreOnFaultyClient, samples: Samples, pair: tuple[Message, Message]
) -> None:
    old, new = pair
    assert store.replace_message(new, "another") == Refused(old)
    assert store.replace_message(replace(new, place=samples.entry().place), old.nonce) == Refused(None)
    assert store.get_messages([old.id]) == {old.id: old}


def test_a_replacement_without_an_answer_is_unknown(store: StoreOnFaultyClient, pair: tuple[Message, Message]) -> None:
    old, new = pair
    store.faults.plan(always=timed_out_before)
    assert isinstance(store.replace_message(new, old.nonce), Unknown)


@pytest.mark.parametrize("fault", [refused, throttled, timed_out_before])
@pytest.mark.parametrize("count", [1, 3])
def test_a_result_that_cannot_be_kept_raises_nothing(
    store: StoreOnFaultyClient, samples: Samples, fault: RequestFault, count: int
) -> None:
    """The entry's deletion was the commit: a lost snapshot loses an answer to a repeat, never the truth."""
    ids = [samples.message().id for _ in range(count)]
    store.faults.plan(always=fault)
    store.put_results([samples.result(id_) for id_ in ids])
    store.faults.plan()
    assert [store.get_records(id_).result for id_ in ids] == [None] * count


def test_each_id_is_asked_for_once(store: StoreOnFaultyClient, samples: Samples) -> None:
    """A key twice in one batch read is refused by DynamoDB."""
    message = samples.message()
    store.put_messages([message])
    assert store.get_messages([message.id, message.id]) == {message.id: message}
    assert store.get_locations([message.id, message.id]) == {}
