"""A message becomes a dead letter with its runs, as short as one write unit asks; a stale claim buries nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from millrace.engine.bury import (
    ERROR_BYTES,
    ERROR_CHARACTERS,
    HISTORY_BYTES,
    OWNER_BYTES,
    bury,
    fitting,
    history_with,
    shortened,
    storable,
)
from millrace.engine.claim import Claim, claim
from millrace.engine.enqueue import enqueue
from millrace.engine.queue import Queue
from millrace.model.errors import StoreUnavailable
from millrace.model.message import Attempt, DeadLetterReason, Draft
from millrace.stores.dynamodb.items import history_text
from millrace.stores.interface import Unknown
from tests.conftest import NOON, Bench

RUN = Attempt(1, 1, "worker", NOON, NOON + 5, "ValueError", "no")


@pytest.fixture
def held(bench: Bench) -> tuple[Queue, Claim]:
    queue = bench.queue()
    enqueue(queue, Draft(b"{}", project="billing"))
    (claimed,) = claim(queue, owner="w").claims
    return queue, claimed


def end(queue: Queue, held: Claim, **more: object) -> bool:
    texts = {"error_type": "Bad", "error": "why", **more}
    return bury(queue, held.entry, held.message, DeadLetterReason.REJECTED, **texts)  # type: ignore[arg-type]


def test_a_buried_message_is_a_dead_letter_and_its_room_is_free(held: tuple[Queue, Claim]) -> None:
    queue, claimed = held
    assert end(queue, claimed, attempts=[RUN], error="x" * 9_000)
    location = queue.store.get_location(claimed.entry.id)
    assert location is not None
    dead_letter = queue.store.get_dead_letter(queue.tenant, "Jobs", location.dead_letter)
    assert dead_letter is not None
    assert (dead_letter.message, dead_letter.project, dead_letter.history) == (claimed.message, "billing", (RUN,))
    assert len(dead_letter.error) == ERROR_CHARACTERS
    assert queue.store.get_entry(claimed.entry.place) is None


def test_a_stale_claim_buries_nothing(held: tuple[Queue, Claim]) -> None:
    queue, claimed = held
    assert not end(queue, replace(claimed, entry=replace(claimed.entry, token="stale")))
    assert queue.store.get_entry(claimed.entry.place) == claimed.entry
    assert queue.store.get_location(claimed.entry.id) is None


def test_a_burial_without_an_answer_is_an_error(held: tuple[Queue, Claim], monkeypatch: pytest.MonkeyPatch) -> None:
    queue, claimed = held
    monkeypatch.setattr(queue.store, "bury_entry", lambda *_: Unknown(StoreUnavailable("gone")))
    with pytest.raises(StoreUnavailable, match="tried again"):
        end(queue, claimed)


def test_the_runs_of_another_message_of_the_id_do_not_come_along(held: tuple[Queue, Claim]) -> None:
    queue, claimed = held
    entry = replace(claimed.entry, attempts=1)
    assert end(queue, claimed, attempts=[RUN])
    assert history_with(queue, entry, [replace(RUN, number=2)]) == (RUN, replace(RUN, number=2))
    assert history_with(queue, replace(entry, nonce="another"), [RUN]) == (RUN,)


@pytest.mark.parametrize("text", ["x" * 999, '"' * 999, "\x00" * 999, "é" * 999, "🦊" * 999, "\ud800" * 999])
def test_the_first_run_and_the_last_always_fit(text: str) -> None:
    """Of any text: a quote takes two bytes of JSON, a control character six."""
    runs = [shortened(replace(RUN, number=n, owner=text, error_type=text, error=text)) for n in range(1, 30)]
    kept = fitting(tuple(runs))
    assert kept[0] == runs[0]
    assert kept[-1] == runs[-1]
    assert len(kept) >= 2
    assert len(history_text(kept)["S"].encode()) <= HISTORY_BYTES
    assert all(len(json.dumps(run.error, ensure_ascii=False).encode()) - 2 <= ERROR_BYTES for run in kept)
    assert all(run.error.endswith("…") for run in kept)


def test_short_runs_are_kept_as_they_are_and_all_of_them() -> None:
    runs = tuple(replace(RUN, number=n) for n in range(1, 6))
    assert fitting(runs) == tuple(map(shortened, runs)) == runs
    assert fitting(()) == ()
    assert shortened(replace(RUN, owner="o" * OWNER_BYTES)).owner == "o" * OWNER_BYTES


def test_a_text_that_utf_8_cannot_hold_is_stored_all_the_same() -> None:
    assert storable("a\ud800b") == "a?b"
