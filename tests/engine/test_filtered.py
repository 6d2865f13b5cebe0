"""A message that the filter leaves out: recorded once, without its body, and never queued."""

from __future__ import annotations

import pytest

from millrace.engine.claim import claim
from millrace.engine.drafts import check
from millrace.engine.enqueue import Receipt, enqueue
from millrace.engine.filtered import filtered_id, record_all_filtered, record_filtered
from millrace.engine.status import MessageStatus, status
from millrace.model.errors import StoreUnavailable
from millrace.model.message import Draft
from millrace.stores.interface import Unknown
from tests.conftest import Bench

DRAFT = Draft(b"secret", idempotency_key="k", source="github", headers={"x": "y"})


def test_its_status_can_be_asked_for_and_nothing_runs(bench: Bench) -> None:
    queue = bench.queue()
    receipt = record_filtered(queue, DRAFT)
    assert (receipt.status, receipt.duplicate) == (MessageStatus.FILTERED, False)
    assert status(queue, receipt.message_id).status is MessageStatus.FILTERED
    assert claim(queue, owner="w").claims == []
    kept = queue.store.get_messages([receipt.message_id])[receipt.message_id]
    assert (kept.body.data, kept.source, kept.headers) == (b"", "github", {"x": "y"})
    assert queue.state(fresh=True).depth == 0


def test_a_repeat_finds_the_record_there(bench: Bench) -> None:
    queue = bench.queue()
    first, again = record_filtered(queue, DRAFT), record_filtered(queue, DRAFT)
    assert first.message_id == again.message_id
    assert again.duplicate


def test_a_later_message_of_the_key_that_passes_finds_its_place_free(bench: Bench) -> None:
    queue = bench.queue()
    left_out = record_filtered(queue, DRAFT)
    accepted = enqueue(queue, DRAFT)
    assert accepted.message_id != left_out.message_id
    assert not accepted.duplicate
    assert len(claim(queue, owner="w").claims) == 1


def test_a_record_without_an_answer_is_an_error_of_its_own(
    memory_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = memory_bench.queue()
    drafts = [check(queue, Draft(b"", idempotency_key=key), queue.now()) for key in "ab"]
    cause = StoreUnavailable("gone")
    real = queue.store.put_messages
    monkeypatch.setattr(queue.store, "put_messages", lambda messages: [*real(messages[:1]), Unknown(cause)])
    recorded, failed = record_all_filtered(queue, drafts)
    assert isinstance(recorded, Receipt)
    assert recorded.message_id == filtered_id(queue, drafts[0])
    assert isinstance(failed, StoreUnavailable)
    assert failed.__cause__ is cause
    monkeypatch.setattr(queue.store, "put_messages", lambda _messages: [Unknown(cause)])
    with pytest.raises(StoreUnavailable, match="repeat it"):
        record_filtered(queue, DRAFT)
