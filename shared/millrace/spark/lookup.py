"""Where the messages of many keys are: batch reads, nothing written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from millrace.definitions import load
from millrace.engine.drafts import WEBHOOK, spaced_key
from millrace.engine.queue import Queue
from millrace.engine.status import statuses
from millrace.model.ids import keyed_message_id
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
    webhooks: tuple[str, ...] = ()  #: whose deliveries count too: their keys are a space of their own in the queue


def look_up(look: Lookup, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The status of each (tenant, id), on an executor; `missing` where there is no message."""
    runtime = connect(look.connection).runtime
    spec = load(look.definitions).queue(look.queue).spec
    with ThreadPoolExecutor(look.threads, thread_name_prefix="look") as pool:
        for batch in batches:
            ids: dict[str, list[tuple[str, str]]] = {}
            columns = (batch.column(name).to_pylist() for name in ("tenant", "id", "idempotency_key"))
            for tenant, id_, key in zip(*columns, strict=True):
                ids.setdefault(tenant, []).append((id_, key or ""))
            asked = [
                (runtime.queue(tenant, spec), of_tenant[start : start + CHUNK])
                for tenant, of_tenant in ids.items()
                for start in range(0, len(of_tenant), CHUNK)
            ]
            yield from pool.map(partial(_found, look.webhooks), asked)


def _found(webhooks: tuple[str, ...], asked: tuple[Queue, list[tuple[str, str]]]) -> pa.RecordBatch:
    queue, rows = asked
    ids = [id_ for id_, _ in rows]
    existing = {id_: status.value for id_, status in statuses(queue, ids).items()}
    for webhook in webhooks:
        delivered = {
            keyed_message_id(queue.tenant, queue.spec.name, spaced_key(f"{WEBHOOK}{webhook}", key)): id_
            for id_, key in rows
            if key and id_ not in existing
        }
        existing |= {delivered[id_]: status.value for id_, status in statuses(queue, list(delivered)).items()}
    words = [existing.get(id_, MISSING) for id_ in ids]
    return STATUSES.batch([[queue.tenant] * len(ids), ids, words])


def find_statuses(shaped: DataFrame, look: Lookup, tasks: int) -> DataFrame:
    """Shaped rows that were not rejected, as (tenant, id, status), each id once."""
    of_ids = (
        shaped.where("reason is null").groupBy("tenant", "id").agg(F.max("idempotency_key").alias("idempotency_key"))
    )
    ids = of_ids.repartition(tasks, "tenant", "id")
    return ids.mapInArrow(partial(look_up, look), STATUSES.ddl)
