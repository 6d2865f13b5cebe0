"""Hundreds of real webhook payloads, each stored for one unit and one for every started KB."""

from __future__ import annotations

import math

import pytest

from millrace.engine.claim import body_of, claim
from millrace.engine.enqueue import Receipt, enqueue_all
from millrace.engine.finish import ack
from millrace.stores.dynamodb.items import message_item
from tests.performance.costs.corpus import corpora, github_drafts
from tests.performance.costs.measures import Bench
from tests.performance.costs.report import corpus_table, weigh, with_dictionary
from tests.stores.sizes import item_bytes


def test_each_payload_costs_one_and_each_started_kb(dynamodb_bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """The message is put by itself, so that DynamoDB Local says what it took."""
    weighed = weigh(dynamodb_bench, github_drafts())
    assert len(weighed) > 300
    for payload in weighed:
        assert payload.reported == math.ceil(payload.stored / 1024)
        assert payload.packed < payload.raw
    with capsys.disabled():
        print("\n" + corpus_table(weighed))


def test_payloads_pass_through_the_queue_to_the_byte_at_that_price(dynamodb_bench: Bench) -> None:
    queue = dynamodb_bench.queue()
    drafts = {draft.idempotency_key: draft for draft in github_drafts()[::5]}
    accepted: list[object] = []
    cost = dynamodb_bench.measure(1, lambda: accepted.extend(enqueue_all(queue, list(drafts.values()))))
    assert all(isinstance(receipt, Receipt) for receipt in accepted)
    expected = 0
    left = len(drafts)
    while left:
        claims = claim(queue, owner="worker", limit=100).claims
        for found in claims:
            assert body_of(queue, found) == drafts[found.message.idempotency_key].body
            expected += 1 + math.ceil(item_bytes(message_item(found.message)) / 1024)
        assert ack(queue, [found.entry for found in claims]) == [None] * len(claims)
        left -= len(claims)
    assert cost.writes - cost.accounting == expected


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("329 GitHub payloads, of every event", 2.5),
        ("Stripe's payment_intent.succeeded", 2.0),
        ("PagerDuty's incident.triggered", 2.0),
    ],
)
def test_a_dictionary_of_one_half_packs_the_other(dynamodb_bench: Bench, name: str, most: float) -> None:
    plain, packed = with_dictionary(dynamodb_bench, corpora()[name])
    assert packed <= most
    assert packed <= 0.75 * plain
