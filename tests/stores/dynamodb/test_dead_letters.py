"""Dead letters as items: whole, replayable, and deleted once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from millrace.model.message import Body, DeadLetter
from millrace.stores.dynamodb.dead_letters import PARTS, dead_letter_item, dead_letter_key, dead_letter_of
from millrace.stores.interface import APPLIED
from tests.conftest import NOON
from tests.faults.client import StoreOnFaultyClient, timed_out_after
from tests.stores.samples import Samples, claimed

SAMPLES = Samples("letters")
REPLAYED = {"replayed_at": NOON + 5, "replayed_as": "m2", "replay_job": "j1"}


@pytest.mark.parametrize(
    "dead_letter",
    [
        SAMPLES.dead_letter(),
        SAMPLES.dead_letter(labels=(), history=()),
        SAMPLES.dead_letter(SAMPLES.message(body=Body(blob="b/1", size=9, digest=b"d" * 32)), **REPLAYED),
    ],
    ids=["every field", "nothing optional", "a blob, replayed"],
)
def test_a_dead_letter_comes_back_the_same(dead_letter: DeadLetter) -> None:
    """Its message's own end of life comes back with it, though the item lives by another."""
    item = dead_letter_item(dead_letter)
    assert dead_letter_of(item) == dead_letter
    assert (int(item["ttl"]["N"]), int(item["message_ttl"]["N"])) == (dead_letter.ttl, dead_letter.message.ttl)


@pytest.fixture
def buried(store: StoreOnFaultyClient, samples: Samples) -> DeadLetter:
    entry = samples.entry()
    held = claimed(entry)
    store.put_entries([entry])
    store.claim_entries([held], NOON)
    dead_letter = samples.dead_letter(samples.message(entry))
    assert store.bury_entry(held, samples.buried(dead_letter), dead_letter) == APPLIED
    return dead_letter


def test_a_deletion_whose_answer_was_lost_is_its_own(store: StoreOnFaultyClient, buried: DeadLetter) -> None:
    store.faults.plan(timed_out_after)
    assert store.delete_dead_letter(buried)
    assert not store.delete_dead_letter(buried)


def test_a_replay_is_noted_on_what_is_there_and_makes_nothing_anew(
    store: StoreOnFaultyClient, buried: DeadLetter
) -> None:
    message = buried.message
    noted = replace(buried, replayed_at=NOON + 5, replayed_as="m2", replay_job="j1")
    store.faults.plan(timed_out_after)
    assert store.mark_replayed(replace(noted, error="another text"))
    assert store.get_dead_letter(message.tenant, message.queue, buried.sk) == noted
    assert not store.delete_dead_letter(buried), "it was replayed since it was read"
    assert store.delete_dead_letter(noted)
    assert not store.mark_replayed(noted)
    assert store.get_dead_letter(message.tenant, message.queue, buried.sk) is None


def test_dead_letters_of_a_queue_are_spread_over_its_parts() -> None:
    keys = [dead_letter_key("t", "Q", f"{NOON:013d}#{number:032x}") for number in range(800)]
    parts = Counter(key["pk"]["S"] for key in keys)
    assert set(parts) == {f"t#Q#{part}" for part in range(PARTS)}
    assert max(parts.values()) < 2 * 800 / PARTS


def test_a_page_reads_each_part_once(store: StoreOnFaultyClient, samples: Samples) -> None:
    store.faults.plan()
    assert store.read_dead_letters(samples.tenant, samples.queue, "0", "9", 50).items == ()
    assert store.faults.sent == ["query"] * PARTS
