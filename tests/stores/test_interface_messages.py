"""Messages and what is kept under their ids, on every store."""

from __future__ import annotations

from dataclasses import replace

from millrace.model.keys import WITHDRAWN
from millrace.model.message import Body, Place, Records
from millrace.stores.interface import APPLIED, Refused, Store
from tests.conftest import NOON
from tests.stores.samples import Samples, all_claimed, claimed


def test_message_is_read_back_as_it_was_put(store: Store, samples: Samples, count: int) -> None:
    messages = samples.messages(count)
    assert store.put_messages(messages) == [APPLIED] * count
    assert store.get_messages([message.id for message in messages]) == {message.id: message for message in messages}


def test_repeated_commit_is_recognised_by_its_nonce(store: Store, samples: Samples, count: int) -> None:
    messages = samples.messages(count)
    store.put_messages(messages)
    assert store.put_messages(messages) == [APPLIED] * count


def test_second_message_of_an_id_is_refused_with_the_first(store: Store, samples: Samples, count: int) -> None:
    messages = samples.messages(count)
    store.put_messages(messages)
    others = [replace(message, nonce="other", body=Body(b"other", size=5)) for message in messages]
    assert store.put_messages(others) == [Refused(message) for message in messages]
    assert store.get_messages([m.id for m in messages]) == {message.id: message for message in messages}


def test_each_commit_of_a_batch_stands_for_itself(store: Store, samples: Samples) -> None:
    messages = samples.messages(30)
    taken = messages[::7]
    store.put_messages(taken)
    mixed = [replace(message, nonce="other") if message in taken else message for message in messages]
    assert store.put_messages(mixed) == [Refused(m) if m in taken else APPLIED for m in messages]
    assert store.get_messages([m.id for m in messages]) == {message.id: message for message in messages}


def test_one_id_twice_in_one_call_commits_the_first(store: Store, samples: Samples) -> None:
    first, between = samples.messages(2)
    second = replace(first, nonce="other")
    assert store.put_messages([first, between, second]) == [APPLIED, APPLIED, Refused(first)]


def test_finished_message_is_replaced_by_its_nonce(store: Store, samples: Samples) -> None:
    old = samples.message()
    store.put_messages([old])
    new = replace(old, nonce="new", body=Body(b"new", size=3), run="")
    store.put_entries([samples.entry(place=new.place, id=new.id, nonce=new.nonce)])
    assert store.replace_message(new, old.nonce) == APPLIED
    assert store.get_messages([old.id]) == {old.id: new}
    assert store.replace_message(new, old.nonce) == APPLIED, "its own write, repeated"


def test_a_message_whose_entry_was_removed_replaces_nothing(store: Store, samples: Samples) -> None:
    old = samples.message()
    store.put_messages([old])
    new = replace(old, nonce="new")
    assert store.replace_message(new, old.nonce) == Refused(None)
    store.put_entries([samples.entry(place=new.place, id=new.id, nonce="another")])
    assert store.replace_message(new, old.nonce) == Refused(None)
    assert store.get_messages([old.id]) == {old.id: old}


def test_a_withdrawn_entry_can_no_longer_be_committed(store: Store, samples: Samples) -> None:
    entry = samples.entry(version=1)
    held = claimed(entry)
    store.put_entries([entry])
    assert store.claim_entries([held], NOON) == [APPLIED]
    marker = samples.message(entry, nonce="marker", place=Place(entry.place.pk, WITHDRAWN))
    assert isinstance(store.withdraw_entry(replace(held, token="stale"), marker), Refused)
    assert store.get_entry(entry.place) == held
    assert store.withdraw_entry(held, marker) == APPLIED
    assert (store.get_entry(entry.place), store.get_messages([entry.id])) == (None, {})
    assert store.get_records(entry.id).message is None
    late = samples.message(entry)
    assert store.put_messages([late]) == [Refused(marker)]
    assert store.replace_message(late, marker.nonce) == Refused(None)
    second = claimed(replace(entry, nonce="second"))
    store.put_entries([replace(entry, nonce="second")])
    store.claim_entries([second], NOON)
    assert store.withdraw_entry(second, marker) == APPLIED, "the orphan of another sender of the same key"


def test_an_entry_that_was_committed_meanwhile_is_not_withdrawn(store: Store, samples: Samples) -> None:
    entry = samples.entry(version=1)
    held = claimed(entry)
    store.put_entries([entry])
    store.claim_entries([held], NOON)
    message = samples.message(entry)
    store.put_messages([message])
    marker = samples.message(entry, nonce="marker", place=Place(entry.place.pk, WITHDRAWN))
    assert isinstance(store.withdraw_entry(held, marker), Refused)
    assert store.get_entry(entry.place) == held
    assert store.get_messages([entry.id]) == {entry.id: message}


def test_replacing_by_a_stale_nonce_changes_nothing(store: Store, samples: Samples) -> None:
    there = samples.message()
    store.put_messages([there])
    assert store.replace_message(replace(there, nonce="new"), "older") == Refused(there)
    assert store.get_messages([there.id]) == {there.id: there}


def test_replacing_a_missing_message_makes_none(store: Store, samples: Samples) -> None:
    message = samples.message()
    assert store.replace_message(message, "older") == Refused(None)
    assert store.get_messages([message.id]) == {}


def test_only_messages_that_exist_are_found(store: Store, samples: Samples) -> None:
    there, missing = samples.messages(2)
    store.put_messages([there])
    assert store.get_messages([there.id, missing.id, there.id]) == {there.id: there}
    assert store.get_messages([]) == {}


def test_more_messages_than_one_read_takes(store: Store, samples: Samples) -> None:
    messages = samples.messages(103)
    store.put_messages(messages)
    assert store.get_messages([m.id for m in messages]) == {message.id: message for message in messages}


def test_records_of_an_unknown_id_are_empty(store: Store, samples: Samples) -> None:
    assert store.get_records("nobody") == Records()
    assert store.get_location("nobody") is None


def test_location_of_many_are_found_at_once(store: Store, samples: Samples) -> None:
    """One that moved, one that died, one that did neither, one that nobody knows."""
    entries = samples.entries(3)
    messages = [samples.message(entry) for entry in entries]
    store.put_entries(entries)
    store.put_messages(messages)
    moving, dying, _ = held = all_claimed(entries)
    store.claim_entries(held, NOON)
    new, moved = samples.moved(moving)
    dead_letter = samples.dead_letter(messages[1])
    assert store.move_entry(moving, new, moved) == APPLIED
    assert store.bury_entry(dying, samples.buried(dead_letter), dead_letter) == APPLIED
    ids = [message.id for message in messages]
    expected = {ids[0]: moved, ids[1]: samples.buried(dead_letter)}
    assert store.get_locations([*ids, "nobody", ids[0]]) == expected
    assert {id_: at for id_ in ids if (at := store.get_location(id_))} == expected
    assert store.get_locations([]) == {}


def test_location_of_more_messages_than_one_read_takes(store: Store, samples: Samples) -> None:
    (entry,) = entries = samples.entries(1)
    store.put_entries(entries)
    (held,) = all_claimed(entries)
    store.claim_entries([held], NOON)
    new, moved = samples.moved(held)
    store.move_entry(held, new, moved)
    assert store.get_locations([*(f"nobody-{n}" for n in range(120)), entry.id]) == {entry.id: moved}


def test_result_is_kept_under_its_message(store: Store, samples: Samples, count: int) -> None:
    messages = samples.messages(count)
    store.put_messages(messages)
    results = [samples.result(message.id) for message in messages]
    store.put_results(results)
    found = [store.get_records(message.id) for message in messages]
    assert found == [Records(message, result=result) for message, result in zip(messages, results, strict=True)]


def test_newer_result_takes_the_place_of_an_older_one(store: Store, samples: Samples, count: int) -> None:
    messages = samples.messages(count)
    store.put_results([samples.result(message.id) for message in messages])
    newer = [samples.result(m.id, finished_at=NOON + 1, nonce="n2", version=9, snapshot=b"") for m in messages]
    store.put_results(newer)
    assert [store.get_records(message.id).result for message in messages] == newer


def test_older_result_does_not_come_back(store: Store, samples: Samples, count: int) -> None:
    messages = samples.messages(count)
    newer = [samples.result(message.id, finished_at=NOON + 1) for message in messages]
    store.put_results(newer)
    store.put_results([samples.result(message.id, snapshot=b"late") for message in messages])
    assert [store.get_records(message.id).result for message in messages] == newer
