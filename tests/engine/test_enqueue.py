"""Accepting messages: one commit, one message a key, exact bodies."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from millrace.engine.claim import body_of, claim
from millrace.engine.enqueue import ORPHAN_GRACE_MS, Receipt, enqueue, enqueue_all
from millrace.engine.finish import RunFailure, ack, nack
from millrace.engine.status import MessageStatus, status
from millrace.model.body import INLINE_LIMIT
from millrace.model.errors import InvalidField, MillraceError, QueueFull, StoreUnavailable
from millrace.model.message import Draft
from millrace.model.queue_spec import Idempotency, Retention, RetryPolicy
from tests.conftest import Bench
from tests.engine.steps import raising


def test_an_accepted_message_is_ready_at_once_under_its_id(bench: Bench) -> None:
    queue = bench.queue()
    receipt = enqueue(queue, Draft(b'{"a": 1}', correlation_id="trace-1", source="test"))
    found = status(queue, receipt.message_id)
    assert found.status is MessageStatus.READY
    assert (found.message.correlation_id, found.message.source) == ("trace-1", "test")
    assert not receipt.duplicate


def test_a_repeated_key_gives_the_first_id_and_one_message(bench: Bench) -> None:
    queue = bench.queue()
    first = enqueue(queue, Draft(b"one", idempotency_key="k"))
    again = enqueue(bench.queue(runtime=bench.another_process()), Draft(b"two", idempotency_key="k"))
    assert (again.message_id, again.duplicate, again.status) == (first.message_id, True, MessageStatus.READY)
    claims = claim(queue, owner="w", limit=10).claims
    assert [body_of(queue, c) for c in claims] == [b"one"]


def test_a_repeat_after_the_end_gives_the_cached_result(bench: Bench) -> None:
    queue = bench.queue()
    enqueue(queue, Draft(b"x", idempotency_key="k"))
    (held,) = claim(queue, owner="w").claims
    assert ack(queue, [held.entry], [b'{"ok":true}']) == [None]
    again = enqueue(queue, Draft(b"x", idempotency_key="k"))
    assert (again.duplicate, again.status, again.result) == (True, MessageStatus.DONE, b'{"ok":true}')
    assert claim(queue, owner="w").claims == []


def test_a_key_is_free_again_when_its_message_ended_and_its_window_is_over(bench: Bench) -> None:
    queue = bench.queue(idempotency=Idempotency(window_seconds=60))
    first = enqueue(queue, Draft(b"one", idempotency_key="k"))
    (held,) = claim(queue, owner="w").claims
    ack(queue, [held.entry], [b"1"])
    bench.clock.forward(60_000)
    second = enqueue(queue, Draft(b"two", idempotency_key="k"))
    assert (second.message_id, second.duplicate) == (first.message_id, False)
    (held,) = claim(queue, owner="w").claims
    assert body_of(queue, held) == b"two"
    ack(queue, [held.entry], [b"2"])
    assert enqueue(queue, Draft(b"three", idempotency_key="k")).result == b"2"


def test_a_message_still_queued_is_a_duplicate_however_old(bench: Bench) -> None:
    queue = bench.queue(idempotency=Idempotency(window_seconds=60))
    enqueue(queue, Draft(b"one", idempotency_key="k"))
    bench.clock.forward(61_000)
    assert enqueue(queue, Draft(b"two", idempotency_key="k")).duplicate
    assert len(claim(queue, owner="w", limit=10).claims) == 1


def test_a_dead_message_is_a_duplicate_within_its_window(bench: Bench) -> None:
    queue = bench.queue(delivery=RetryPolicy(max_attempts=1))
    enqueue(queue, Draft(b"one", idempotency_key="k"))
    (held,) = claim(queue, owner="w").claims
    assert nack(queue, held.entry, held.message, RunFailure("E", "broken")) is None
    assert enqueue(queue, Draft(b"one", idempotency_key="k")).status is MessageStatus.DEAD


def test_the_same_key_of_another_tenant_or_queue_is_another_message(bench: Bench) -> None:
    ids = {
        enqueue(queue, Draft(b"x", idempotency_key="k")).message_id
        for queue in (
            bench.queue("One"),
            bench.queue("Two"),
            bench.runtime.queue(bench.tenant + "x", bench.queue("One").spec),
        )
    }
    assert len(ids) == 3


def test_a_batch_answers_each_by_itself(bench: Bench) -> None:
    queue = bench.queue()
    enqueue(queue, Draft(b"0", idempotency_key="key-7"))
    drafts = [Draft(b"%d" % n, idempotency_key=f"key-{n % 50}") for n in range(60)]
    drafts[3] = Draft(b"3", idempotency_key="key-3", priority=10_000)
    answers = enqueue_all(queue, drafts)
    assert isinstance(answers[3], InvalidField)
    duplicates = [n for n, a in enumerate(answers) if isinstance(a, Receipt) and a.duplicate]
    # key-3 comes again at 53: its first was refused, so that one is new.
    assert duplicates == [7, 50, 51, 52, 54, 55, 56, 57, 58, 59]
    assert len(claim(queue, owner="w", limit=100).claims) == 50


@pytest.mark.parametrize(
    "body",
    [b"", b"\x00\xff" * 300, "ünïcödé ✓".encode(), b"{" + b" " * 100_000 + b"}", sha256(b"x").digest() * 2_000],
    ids=["empty", "binary", "unicode", "compressible", "incompressible"],
)
def test_a_body_comes_back_byte_for_byte(bench: Bench, body: bytes) -> None:
    queue = bench.queue()
    enqueue(queue, Draft(body, content_type="application/octet-stream"))
    (held,) = claim(queue, owner="w").claims
    assert body_of(queue, held) == body


def test_a_six_megabyte_body_lies_in_a_blob(bench: Bench) -> None:
    queue = bench.queue()
    body = b"".join(sha256(b"%d" % n).digest() for n in range(6 * 1024 * 32))
    assert len(body) == queue.spec.max_body_bytes
    enqueue(queue, Draft(body))
    (held,) = claim(queue, owner="w").claims
    assert held.message.body.blob
    assert body_of(queue, held) == body


def test_a_large_body_that_packs_well_stays_in_the_table(bench: Bench) -> None:
    queue = bench.queue()
    enqueue(queue, Draft(json.dumps([{"alert": "disk full"}] * 9_000).encode()))
    (held,) = claim(queue, owner="w").claims
    assert held.message.body.size > 4 * INLINE_LIMIT
    assert not held.message.body.blob


def test_a_sender_that_stalls_between_its_writes_gives_up_instead_of_committing(bench: Bench) -> None:
    """Past the orphans' grace its entry may be gone: committing then would accept a message that never runs."""
    queue = bench.queue()
    put_entries = bench.store.put_entries

    def stall(entries):  # type: ignore[no-untyped-def]
        outcomes = put_entries(entries)
        bench.clock.forward(ORPHAN_GRACE_MS)
        return outcomes

    bench.store.put_entries = stall  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable, match="too long"):
        enqueue(queue, Draft(b"x", idempotency_key="k"))
    del bench.store.put_entries
    assert not enqueue(queue, Draft(b"x", idempotency_key="k")).duplicate
    assert len(claim(queue, owner="w", limit=10).claims) == 1


def test_delays_hold_a_message_back_until_its_time(bench: Bench) -> None:
    queue = bench.queue()
    enqueue(queue, Draft(b"later", not_before=bench.clock() + 5_000))
    enqueue(queue, Draft(b"past", not_before=bench.clock() - 5_000))
    first = claim(queue, owner="w", limit=10)
    assert [body_of(queue, c) for c in first.claims] == [b"past"]
    ack(queue, [c.entry for c in first.claims])
    assert claim(queue, owner="w").next_at == bench.clock() + 5_000
    bench.clock.forward(5_000)
    assert [body_of(queue, c) for c in claim(queue, owner="w").claims] == [b"later"]


def test_a_full_queue_refuses_with_a_time_to_come_back(bench: Bench) -> None:
    queue = bench.queue(retention=Retention(max_depth=2))
    answers: list[Receipt | MillraceError] = enqueue_all(queue, [Draft(b"x")] * 3)
    assert [isinstance(answer, Receipt) for answer in answers] == [True, True, False]
    with pytest.raises(QueueFull) as caught:
        enqueue(queue, Draft(b"x"))
    assert caught.value.retry_after > 0


def test_a_body_that_finds_no_place_is_refused_by_itself_and_takes_no_room(bench: Bench) -> None:
    queue = bench.queue(retention=Retention(max_depth=2))
    bench.blobs.put = raising(StoreUnavailable("no such bucket"))  # type: ignore[method-assign]
    large = b"".join(sha256(b"%d" % n).digest() for n in range(2_000))
    answers = enqueue_all(queue, [Draft(large), Draft(b"small")])
    assert isinstance(answers[0], StoreUnavailable)
    assert isinstance(answers[1], Receipt)
    assert isinstance(enqueue(queue, Draft(b"another")), Receipt)
