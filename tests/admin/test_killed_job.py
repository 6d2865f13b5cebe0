"""A replay job killed half-way and resumed: each dead letter exactly once. `tests.admin.soak` does it with 5,000."""

from __future__ import annotations

from millrace.stores.dynamodb.client import TableNames
from tests.admin.killing import prove


def test_each_dead_letter_is_replayed_once_though_the_job_is_killed_twice(
    engine_url: str, tables: TableNames, tenant: str
) -> None:
    prove(engine_url, tenant, 300)
