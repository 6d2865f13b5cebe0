"""How dictionaries lie in the table: under their queue, and gone by themselves when nothing can refer to them."""

from __future__ import annotations

from millrace.model.dictionary import LONGEST_LIFE_SECONDS, Dictionary
from millrace.stores.dynamodb.dictionaries import (
    SAMPLE_MS,
    body_sample_item,
    dictionary_item,
    stored_dictionary_of,
)


def test_a_dictionary_lies_under_its_queue_and_name() -> None:
    stored = Dictionary(b"shared").stored(7_000)
    item = dictionary_item("t", "Jobs", stored)
    assert (item["pk"], item["sk"]) == ({"S": "Z#t#Jobs"}, {"S": stored.name})
    assert item["ttl"] == {"N": str(7 + LONGEST_LIFE_SECONDS)}
    assert stored_dictionary_of(item) == stored


def test_a_sample_that_nobody_uses_goes_after_a_month() -> None:
    item = body_sample_item("t", "Jobs", ["a", "b"], 0)
    assert (item["sk"], item["ids"]) == ({"S": "SAMPLE"}, {"S": "a,b"})
    assert item["ttl"] == {"N": str(SAMPLE_MS // 1000)}
