"""How samples lie in the table: an item for each hour, gone by itself after 15 days."""

from __future__ import annotations

from millrace.model.queue_samples import HOUR, SAMPLE_MS, SAMPLE_TTL_SECONDS, QueueSample
from millrace.stores.dynamodb.queue_samples import sample_attributes, samples_key, samples_of


def test_the_samples_of_an_hour_share_an_item() -> None:
    began = 500_000 * HOUR
    samples = [QueueSample(began + n * SAMPLE_MS + 7, n, 1, 2, 3, 4, 5) for n in range(12)]
    keys = [samples_key("t", "Jobs", sample.at) for sample in samples]
    assert all(key == {"pk": {"S": "H#t#Jobs"}, "sk": {"S": "0500000"}} for key in keys)
    item = {**keys[0]}
    for sample in reversed(samples):
        item |= sample_attributes(sample)
    assert list(samples_of(item)) == samples
    assert item["ttl"] == {"N": str(samples[0].at // 1000 + SAMPLE_TTL_SECONDS)}
