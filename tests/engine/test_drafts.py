"""What a sender hands in is checked before anything is written, and filled in from the queue's definition."""

from __future__ import annotations

import pytest

from millrace.engine.claim import claim
from millrace.engine.drafts import CorrelationId, check, correlation_id, due_after, priority_number
from millrace.engine.enqueue import enqueue
from millrace.model.errors import BodyTooLarge, InvalidField
from millrace.model.ids import keyed_message_id
from millrace.model.message import Draft
from millrace.model.queue_spec import PRIORITIES, Ordering
from tests.conftest import NOON, Bench

BAD_DRAFTS = {
    "priority above": (Draft(b"", priority=10_000), "priority"),
    "priority below": (Draft(b"", priority=-1), "priority"),
    "priority name": (Draft(b"", priority="urgent"), "priority"),
    "key too long": (Draft(b"", key="k" * 129), "key"),
    "key with control characters": (Draft(b"", key="a\x00b"), "key"),
    "key that is no text": (Draft(b"", key="\ud800"), "key"),
    "empty idempotency key": (Draft(b"", idempotency_key=""), "idempotency_key"),
    "reserved idempotency key": (Draft(b"", idempotency_key="\x1freplay"), "idempotency_key"),
    "idempotency key too long": (Draft(b"", idempotency_key="k" * 513), "idempotency_key"),
    "project too long": (Draft(b"", project="p" * 65), "project"),
    "label with spaces": (Draft(b"", labels=("two words",)), "labels"),
    "too many labels": (Draft(b"", labels=tuple(f"label-number-{n}" for n in range(20))), "labels"),
    "not before the past": (Draft(b"", not_before=-1), "not_before"),
    "not before the far future": (Draft(b"", not_before=10**15), "not_before"),
    "headers too large": (Draft(b"", headers={"x": "y" * 9_000}), "headers"),
}


@pytest.mark.parametrize(("draft", "field"), BAD_DRAFTS.values(), ids=BAD_DRAFTS.keys())
def test_bad_input_names_the_field_and_what_is_allowed_and_writes_nothing(
    bench: Bench, draft: Draft, field: str
) -> None:
    queue = bench.queue()
    with pytest.raises(InvalidField) as caught:
        enqueue(queue, draft)
    assert caught.value.field == field
    assert "Allowed:" in str(caught.value)
    assert queue.state(fresh=True).depth == 0
    assert claim(queue, owner="w", limit=10).claims == []


def test_a_body_over_the_limit_is_refused_with_both_sizes(bench: Bench) -> None:
    queue = bench.queue(max_body_bytes=10)
    with pytest.raises(BodyTooLarge, match=r"11 bytes.*at most 10"):
        enqueue(queue, Draft(b"x" * 11))


def test_an_ordered_queue_takes_no_priority_and_a_keyed_one_needs_its_key(bench: Bench) -> None:
    with pytest.raises(InvalidField, match="fifo"):
        enqueue(bench.queue(ordering=Ordering.FIFO), Draft(b"", priority="high"))
    with pytest.raises(InvalidField, match="goes by key"):
        enqueue(bench.queue(ordering=Ordering.PER_KEY), Draft(b""))


def test_what_a_draft_leaves_open_is_the_definitions(memory_bench: Bench) -> None:
    queue = memory_bench.queue(project="billing", labels=("eu", "blue"), priority=70)
    checked = check(queue, Draft(b"x"), NOON)
    assert (checked.project, checked.labels, checked.priority, checked.due) == ("billing", ("eu", "blue"), 70, 0)
    own = check(queue, Draft(b"x", project="", labels=("a", "a"), priority="high"), NOON)
    assert (own.project, own.labels, own.priority) == ("", ("a",), PRIORITIES["high"])


def test_a_key_names_the_message_and_without_one_each_is_another(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    keyed = [check(queue, Draft(b"x", idempotency_key="k"), NOON) for _ in range(2)]
    assert {checked.id for checked in keyed} == {keyed_message_id(queue.tenant, "Jobs", "k")}
    assert keyed[0].nonce != keyed[1].nonce, "each try has a nonce of its own"
    assert check(queue, Draft(b"x"), NOON).id != check(queue, Draft(b"x"), NOON).id
    system = check(queue, Draft(b"x", idempotency_key="k"), NOON, system_key="\x1freplay")
    assert system.id == keyed_message_id(queue.tenant, "Jobs", "\x1freplay")


def test_a_time_that_has_come_holds_nothing_back(memory_bench: Bench) -> None:
    queue = memory_bench.queue()
    assert check(queue, Draft(b"x", not_before=NOON), NOON).due == 0
    assert check(queue, Draft(b"x", not_before=NOON + 1), NOON).due == NOON + 1
    assert due_after(NOON, 5) == NOON + 5
    with pytest.raises(InvalidField, match="delay_ms"):
        due_after(NOON, -1)


def test_a_correlation_id_is_kept_where_it_is_fit_to_be_logged() -> None:
    kept = correlation_id(" req-1 ", bytes)
    assert kept == "req-1"
    assert correlation_id(kept, bytes) is kept
    for unfit in (None, "", "two words", "x" * 65, "a\nb"):
        assert isinstance(correlation_id(unfit, bytes), CorrelationId)
        assert correlation_id(unfit, bytes) not in (unfit, "")


@pytest.mark.parametrize("wrong", [-1, 10_000, True, "urgent"])
def test_a_priority_is_a_name_or_a_number_in_range(wrong: int | str) -> None:
    assert [priority_number(name) for name in PRIORITIES] == list(PRIORITIES.values())
    with pytest.raises(InvalidField, match="priority"):
        priority_number(wrong)
