"""What is claimed but may not run: buried with its reason, or taken out for good after a second look."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.engine.claim import Claim, claim
from millrace.engine.clear import bury_doomed, lost_run, remove_orphan
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import enqueue
from millrace.engine.queue import Queue
from millrace.model.message import DeadLetterReason, Draft
from millrace.stores.interface import Refused
from tests.conftest import Bench


@pytest.fixture
def held(memory_bench: Bench) -> tuple[Queue, Claim]:
    queue = memory_bench.queue()
    enqueue(queue, Draft(b"{}", idempotency_key="k"))
    (found,) = claim(queue, owner="w").claims
    return queue, found


def test_a_claim_that_ran_out_is_a_lost_run(held: tuple[Queue, Claim]) -> None:
    _, found = held
    assert lost_run(found.entry, found.entry.until - 1) is None
    lost = lost_run(found.entry, found.entry.until)
    assert lost is not None
    assert (lost.number, lost.owner, lost.ended_at) == (1, "w", found.entry.until)


def test_age_counts_before_attempts_and_a_lost_run_says_why(held: tuple[Queue, Claim]) -> None:
    queue, found = held
    old = replace(found.entry, expires_at=queue.now())
    lost = lost_run(found.entry, found.entry.until)
    assert bury_doomed(queue, old, found.message, lost, queue.now())
    (dead_letter,) = list_dead_letters(queue).items
    assert (dead_letter.reason, dead_letter.error_type) == (DeadLetterReason.EXPIRED, "Expired")
    assert not bury_doomed(queue, found.entry, found.message, lost, queue.now()), "the claim is stale by now"


def test_used_up_attempts_are_said_with_the_last_run(held: tuple[Queue, Claim]) -> None:
    queue, found = held
    lost = lost_run(found.entry, found.entry.until)
    assert bury_doomed(queue, found.entry, found.message, lost, queue.now())
    (dead_letter,) = list_dead_letters(queue).items
    assert (dead_letter.reason, dead_letter.error_type) == (DeadLetterReason.EXHAUSTED, "WorkerLost")


def test_what_was_committed_meanwhile_is_given_back(held: tuple[Queue, Claim]) -> None:
    queue, found = held
    assert not remove_orphan(queue, found.entry)
    kept = queue.store.get_entry(found.entry.place)
    assert kept is not None
    assert not kept.live(queue.now())


def test_an_orphan_is_gone_and_its_sender_can_no_longer_commit_it(
    memory_bench: Bench, held: tuple[Queue, Claim]
) -> None:
    queue, found = held
    memory_bench.store.messages.clear()  # type: ignore[attr-defined]
    assert remove_orphan(queue, found.entry)
    assert queue.store.get_entry(found.entry.place) is None
    assert isinstance(queue.store.put_messages([found.message])[0], Refused)
    assert queue.store.get_messages([found.message.id]) == {}


def test_an_entry_beside_another_ones_message_is_taken_out_and_that_one_stays(
    memory_bench: Bench, held: tuple[Queue, Claim]
) -> None:
    queue, found = held
    other = replace(found.message, nonce="another")
    memory_bench.store.messages[other.id] = other  # type: ignore[attr-defined]
    assert remove_orphan(queue, found.entry)
    assert queue.store.get_messages([other.id]) == {other.id: other}
    assert not remove_orphan(queue, found.entry), "once"
