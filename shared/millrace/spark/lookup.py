"""Where the messages of many keys are: batch reads, nothing written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from millrace.definitions import load
from millrace.engine.queue import Queue
from millrace.engine.status import statuses
from millrace.spark.connection import TableConnection, connect
from millrace.spark.rows import Columns

#: Keys that one round of batch reads looks up.
CHUNK = 100
MISSING = "missing"
STATUSES = Columns(tenant="string", id="string", status="string")


@dataclass(frozen=True, slots=True)
class Lookup:
    """Whose messages to look for."""

    connection: TableConnection
    definitions: bytes
    queue: str
    threads: int = 6


def look_up(look: Lookup, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The status of each (tenant, id), on an executor; `missing` where there is no message."""
    runtime = connect(look.connection).runtime
    spec = load(look.definitions).queue(look.queue).spec
    with ThreadPoolExecutor(look.threads, thread_name_prefix="look") as pool:
        for batch in batches:
            ids: dict[str, list[str]] = {}
            for tenant, id_ in zip(batch.column("tenant").to_pylist(), batch.column("id").to_pylist(), strict=True):
                ids.setdefault(tenant, []).append(id_)
            asked = [
                (runtime.queue(tenant, spec), of_tenant[start : start + CHUNK])
                for tenant, of_tenant in ids.items()
                for start in range(0, len(of_tenant), CHUNK)
            ]
            yield from pool.map(_found, asked)


def _found(asked: tuple[Queue, list[str]]) -> pa.RecordBatch:
    queue, ids = asked
    existing = statuses(queue, ids)
    words = [existing[id_].value if id_ in existing else MISSING for id_ in ids]
    return STATUSES.batch([[queue.tenant] * len(ids), ids, words])


def find_statuses(shaped: DataFrame, look: Lookup, tasks: int) -> DataFrame:
    """Shaped rows that were not rejected, as (tenant, id, status), each id once."""
    ids = shaped.where("reason is null").select("tenant", "id").repartition(tasks, "tenant", "id").distinct()
    return ids.mapInArrow(partial(look_up, look), STATUSES.ddl)
