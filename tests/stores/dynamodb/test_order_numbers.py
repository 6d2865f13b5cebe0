"""Order numbers in DynamoDB: an item for each shard, several asked side by side, a gap where no answer came."""

from __future__ import annotations

from millrace.stores.dynamodb.order_numbers import numbers_key
from millrace.stores.dynamodb.side_by_side import ABREAST
from tests.faults import client as faults
from tests.faults.client import StoreOnFaultyClient


def test_each_shard_has_a_partition_of_its_own(faulty: StoreOnFaultyClient, tenant: str) -> None:
    faulty.take_numbers(tenant, "Jobs", {3: 2})
    item = faulty._calls.get_item(faulty._names.queue, numbers_key(tenant, "Jobs", 3))
    assert item == {"pk": {"S": f"N#{tenant}#Jobs#3"}, "sk": {"S": "N"}, "sequence": {"N": "2"}}


def test_a_shard_without_an_answer_is_left_out(faulty: StoreOnFaultyClient, tenant: str) -> None:
    faulty.faults.plan(always=faults.timed_out_before)
    assert faulty.take_numbers(tenant, "Jobs", {0: 1, 1: 1}) == {}
    faulty.faults.plan()
    assert faulty.take_numbers(tenant, "Jobs", {0: 1, 1: 1}) == {0: 1, 1: 1}


def test_more_shards_than_are_asked_at_once_all_have_an_answer(faulty: StoreOnFaultyClient, tenant: str) -> None:
    counts = {shard: shard + 1 for shard in range(3 * ABREAST + 1)}
    assert faulty.take_numbers(tenant, "Jobs", counts) == dict.fromkeys(counts, 1)
    assert faulty.take_numbers(tenant, "Jobs", counts) == {shard: count + 1 for shard, count in counts.items()}
    assert faulty.faults.sent == ["update_item"] * 2 * len(counts)
