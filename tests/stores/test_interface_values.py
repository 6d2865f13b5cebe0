"""What is stored comes back to the byte: binary, empty, Unicode, the largest that is allowed."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from millrace.engine.claim import body_of, claim
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.queue import Runtime
from millrace.model.body import Blobs
from millrace.model.errors import InvalidField
from millrace.model.message import Body, Draft, Place
from millrace.model.queue_spec import MAX_BODY_BYTES, QueueSpec
from millrace.model.queue_state import QueueState
from millrace.stores.interface import APPLIED, Store
from millrace.stores.memory.queue import MemoryBlobs
from tests.conftest import NOON, Clock
from tests.stores.samples import Samples, claimed, queue_states
from tests.stores.sizes import largest_entry

EVERY_BYTE = bytes(range(256))
UNICODE = 'naïve "quotes" \\ ☃ 🦊 \u200d 東京'


def test_largest_entry_is_stored_and_claimed(store: Store, samples: Samples, count: int) -> None:
    entries = [largest_entry(samples.tenant, number) for number in range(count)]
    assert store.put_entries(entries) == [APPLIED] * count
    again = [claimed(entry, now=entry.until) for entry in entries]
    assert store.claim_entries(again, entries[0].until) == [APPLIED] * count
    assert [store.get_entry(entry.place) for entry in entries] == again
    assert store.end_entries(again) == [APPLIED] * count


def test_entry_with_nothing_in_it(store: Store, samples: Samples, count: int) -> None:
    bare = samples.entries(count, key="", project="", labels=(), attempts=0, deliveries=0, version=0)
    assert store.put_entries(bare) == [APPLIED] * count
    assert [store.get_entry(entry.place) for entry in bare] == bare


def test_entry_of_unicode(store: Store, samples: Samples, count: int) -> None:
    entries = samples.entries(count, key=UNICODE, project=UNICODE, labels=("a", "b"))
    assert store.put_entries(entries) == [APPLIED] * count
    assert [store.get_entry(entry.place) for entry in entries] == entries


@pytest.mark.parametrize(
    "body",
    [
        Body(EVERY_BYTE, "zlib", size=9000),
        Body(b"", size=0),
        Body(b"\x00" * 32 * 1024, size=32 * 1024),
        Body(b"", "zlib", "t/q/m/n", MAX_BODY_BYTES, EVERY_BYTE[:16]),
    ],
    ids=["every byte", "empty", "32 KB", "in a blob"],
)
def test_message_body_comes_back_to_the_byte(store: Store, samples: Samples, count: int, body: Body) -> None:
    messages = samples.messages(min(count, 3), body=body)
    assert store.put_messages(messages) == [APPLIED] * len(messages)
    assert store.get_messages([m.id for m in messages]) == {m.id: m for m in messages}


def test_message_with_nothing_optional(store: Store, samples: Samples, count: int) -> None:
    bare = samples.messages(count, headers={}, correlation_id="", idempotency_key="", source="", origin="", run="")
    assert store.put_messages(bare) == [APPLIED] * count
    assert store.get_messages([m.id for m in bare]) == {m.id: m for m in bare}


def test_message_of_unicode_and_empty_headers(store: Store, samples: Samples, count: int) -> None:
    headers = {"x-empty": "", "x-text": UNICODE}
    messages = samples.messages(count, headers=headers, idempotency_key=UNICODE, source=UNICODE, content_type="")
    assert store.put_messages(messages) == [APPLIED] * count
    assert store.get_messages([m.id for m in messages]) == {m.id: m for m in messages}


def test_result_of_any_bytes(store: Store, samples: Samples, count: int) -> None:
    ids = [entry.id for entry in samples.entries(count)]
    for snapshot in (EVERY_BYTE, b""):
        results = [samples.result(id_, snapshot=snapshot) for id_ in ids]
        store.put_results(results)
        assert [store.get_records(id_).result for id_ in ids] == results


def test_document_and_dead_letter_of_any_bytes(store: Store, samples: Samples) -> None:
    held = claimed(samples.entry())
    store.put_entries([held])
    for version, content in enumerate((b"", EVERY_BYTE, b"x" * 64 * 1024), start=1):
        document = samples.workflow_state(version, content)
        assert store.put_workflow_state(held, document, NOON) == APPLIED
        assert store.get_records(held.id).workflow_state == document
    attempt = samples.attempt(error=UNICODE + "\n\t\x00", owner=UNICODE, error_type="")
    message = samples.message(held, body=Body(EVERY_BYTE, size=256), headers={"x-text": UNICODE}, key="", project="")
    dead_letter = samples.dead_letter(message, error=UNICODE, key="", project="", labels=(), history=(attempt,))
    assert store.bury_entry(held, samples.buried(dead_letter), dead_letter) == APPLIED
    assert store.get_dead_letter(samples.tenant, samples.queue, dead_letter.sk) == dead_letter
    assert store.get_location(held.id) == samples.buried(dead_letter)


def test_what_is_encrypted_says_so(store: Store, samples: Samples, count: int) -> None:
    held = claimed(samples.entry())
    store.put_entries([held])
    messages = samples.messages(count, body=Body(EVERY_BYTE, size=9, encrypted=True))
    results = [samples.result(message.id, encrypted=True) for message in messages]
    state = replace(samples.workflow_state(), encrypted=True)
    assert store.put_messages(messages) == [APPLIED] * count
    store.put_results(results)
    assert store.put_workflow_state(held, state, NOON) == APPLIED
    assert store.get_messages([m.id for m in messages]) == {m.id: m for m in messages}
    assert [store.get_records(message.id).result for message in messages] == results
    assert store.get_records(held.id).workflow_state == state
    dead_letter = samples.dead_letter(samples.message(held, body=messages[0].body))
    assert store.bury_entry(held, samples.buried(dead_letter), dead_letter) == APPLIED
    assert store.get_dead_letter(samples.tenant, samples.queue, dead_letter.sk) == dead_letter


def test_queue_state_keeps_large_numbers(store: Store, tenant: str) -> None:
    seen = QueueState(tenant, "Jobs")
    assert store.set_pace(seen, 9_999_999_999_999)
    assert store.get_queue_state(tenant, "Jobs").pace_at == 9_999_999_999_999


def test_place_is_found_only_by_its_whole_key(store: Store, samples: Samples) -> None:
    entry = samples.entry()
    store.put_entries([entry])
    assert store.get_entry(Place(entry.place.pk, entry.place.sk[:-1])) is None
    assert store.get_entry(Place(entry.place.pk + "0", entry.place.sk)) is None


@pytest.mark.parametrize("headers", [{"": "nameless"}, {"x-text": "\ud800"}, {"\ud800": "x"}, {"x": "v" * 8192}])
def test_headers_that_no_table_could_keep_are_refused(
    store: Store, clock: Clock, tenant: str, headers: dict[str, str]
) -> None:
    queue = Runtime(store, MemoryBlobs(), clock=clock).queue(tenant, QueueSpec("Headers"))
    with pytest.raises(InvalidField, match="headers"):
        enqueue(queue, Draft(b"{}", headers=headers))
    assert not queue_states(store, tenant), "nothing was written"


@pytest.mark.parametrize("size", [MAX_BODY_BYTES, MAX_BODY_BYTES - 1, 40_000])
def test_large_bodies_go_by_blob_and_come_back(blobs: Blobs, memory_store: Store, clock: Clock, size: int) -> None:
    queue = Runtime(memory_store, blobs, clock=clock).queue("t", QueueSpec("Large"))
    body = random.Random(size).randbytes(size)
    enqueue(queue, Draft(body, content_type="application/octet-stream"))
    (held,) = claim(queue, owner="w").claims
    assert (held.message.body.data, held.message.body.size) == (b"", size)
    assert body_of(queue, held) == body


def test_large_and_small_bodies_in_one_batch(store: Store, clock: Clock, blobs: Blobs, tenant: str) -> None:
    queue = Runtime(store, blobs, clock=clock).queue(tenant, QueueSpec("Mixed"))
    bodies = [random.Random(size).randbytes(size) for size in (0, 1, 600, 32_768, 32_769, 500_000)]
    enqueue_all(queue, [Draft(body) for body in bodies])
    claims = claim(queue, owner="w", limit=10).claims
    assert [body_of(queue, held) for held in claims] == bodies
