"""The Glue job's role holds what the job does, and nothing else: the tasks' own code, every call noted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest

from infra.local.dynamodb import REGION
from millrace.definitions import load
from millrace.engine.claim import claim
from millrace.engine.finish import RunFailure, ack, reject
from millrace.engine.queue import Queue
from millrace.model.clock import system_clock
from millrace.model.message import DeadLetterFilter
from millrace.model.replay_windows import ReplayOf
from millrace.spark.bulk_write import WritePlan, write_batches
from millrace.spark.connection import TableConnection, Tables, connect
from millrace.spark.dead_letters import Replay, dead_letter_rows, read_dead_letters
from millrace.spark.lookup import Lookup, look_up
from millrace.spark.row_mapping import Shape, shape_batches
from millrace.spark.rows import COPIES, READ
from millrace.spark.time_machine import Chosen, Rerun, replay_rows
from millrace.spark.writer import Writing
from millrace.stores.dynamodb.client import TableNames
from tests.infra.template.cloud import BUCKET, Cloud, Need
from tests.infra.template.test_permissions import SECRETS
from tests.infra.template.translated import allowed, statements

LARGE = Random(1).randbytes(40_000).hex()
#: What Glue and Spark do under the role: logs, the package, the rows, the report.
AROUND = {
    *(Need(f"logs:{action}", "logs") for action in ("CreateLogGroup", "CreateLogStream", "PutLogEvents")),
    *(Need(f"s3:{action}", "BulkBucket/*") for action in ("GetObject", "PutObject", "DeleteObject")),
    Need("s3:ListBucket", "BulkBucket"),
}


class Job:
    """A run's tasks, one after the other, in this process."""

    def __init__(self, connection: TableConnection, definitions: bytes, tenant: str, queue: str = "Jobs") -> None:
        self.connection = connection
        self.shape = Shape(definitions, queue, tenant)
        self.line: Tables = connect(connection)

    def queue(self) -> Queue:
        return self.line.runtime.queue(self.shape.tenant, load(self.shape.definitions).queue(self.shape.queue).spec)

    def enqueue(self, run: str, bodies: Sequence[str]) -> None:
        self.write(run, shape_batches(self.shape, [rows_of(bodies)]))

    def write(self, run: str, shaped: Iterable[pa.RecordBatch], *, replays: bool = False) -> None:
        plan = WritePlan(self.connection, self.shape, Writing(run), replays=replays)
        list(write_batches(plan, None, map(with_copies, shaped)))

    def look(self, bodies: Sequence[str]) -> None:
        look = Lookup(self.connection, self.shape.definitions, "Jobs")
        list(look_up(look, shape_batches(self.shape, [rows_of(bodies)])))

    def replay(self, run: str) -> None:
        of, name = self.shape, self.shape.queue
        replay = Replay(self.connection, of.definitions, name, of.tenant, run, DeadLetterFilter(), system_clock())
        spans = pa.RecordBatch.from_pylist([{"after": "0", "upto": "9"}])
        self.write(run, dead_letter_rows(replay, read_dead_letters(replay, [spans])), replays=True)

    def run_again(self, run: str) -> None:
        """The time machine, by an export that shows the dead letters."""
        store, tenant = self.line.runtime.store, self.shape.tenant
        chosen = Chosen(ReplayOf.DEAD, "Jobs", from_past=True)
        rerun = Rerun(self.connection, self.shape.definitions, "Jobs", chosen, tenant, run, system_clock())
        nothing = dict.fromkeys(("key", "priority", "project", "labels", "correlation_id", "source", "headers"))
        lives = [
            nothing | {
                "message_id": dead.message.id, "status": "dead", "content_type": dead.message.content_type,
                "body": b"{}", "dead_letter": dead.sk, "received": dead.message.received_at,
                "expires": dead.message.ttl * 1000,
            }
            for dead in store.read_dead_letters(tenant, "Jobs", "0", "9", 10).items
        ]  # fmt: skip
        assert lives
        shaped = list(replay_rows(rerun, [pa.RecordBatch.from_pylist(lives)]))
        assert not any(row["reason"] for batch in shaped for row in batch.to_pylist())
        plan = WritePlan(self.connection, self.shape, Writing(run), replayed_queue="Jobs")
        list(write_batches(plan, None, map(with_copies, shaped)))
        assert {dead.replay_job for dead in store.read_dead_letters(tenant, "Jobs", "0", "9", 10).items} == {run}


def rows_of(bodies: Sequence[str]) -> pa.RecordBatch:
    rows = [{"raw": b"x", "body": f'"{body}"'.encode(), "idempotency_key": body[:20]} for body in bodies]
    return pa.RecordBatch.from_pylist(rows, READ.schema)


def with_copies(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [*batch.columns, pa.array([[]] * len(batch), COPIES)]
    return pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, "copies"])


@pytest.fixture
def cloud(tables: TableNames) -> Iterator[Cloud]:
    noted = Cloud(tables)
    with noted.noting():
        yield noted


def test_role_allows_what_the_job_does_and_nothing_else(
    cloud: Cloud, engine_url: str, tables: TableNames, definitions: bytes, tenant: str
) -> None:
    connection = TableConnection(tables.queue, tables.dead_letters, BUCKET, REGION, engine_url)
    job = Job(connection, definitions, tenant)
    queue = job.queue()
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setattr(cloud, "_note", lambda *_: None)  # the stage: what workers did before
        job.enqueue("old", [f"dead {n}" for n in range(3)] + [f"done {n}" for n in range(2)] + [LARGE])
        for held in claim(queue, owner="w", limit=10, lease_ms=60_000).claims:
            if held.message.idempotency_key.startswith("done"):
                ack(queue, [held.entry], [b"{}"])
            else:
                reject(queue, held.entry, held.message, RunFailure("Broken", "broken"))
    queue.store.get_queue_state(tenant, "Jobs")  # the driver's first look
    job.enqueue("new", [f"new {n}" for n in range(30)])
    job.enqueue("one", ["alone"])
    accounts = pa.RecordBatch.from_pylist(
        [{"raw": b"x", "body": f'{{"id": "{n}", "account": "a{n}"}}'.encode()} for n in range(30)], READ.schema
    )
    ordered = Job(connection, definitions, tenant, "Accounts")  # of several shards, each with numbers of its own
    ordered.write("line", shape_batches(ordered.shape, [accounts]))
    ordered.line.client.close()
    assert (
        len(
            [
                entry
                for pk in ordered.queue().partitions()
                for entry in ordered.queue().store.read_lane(pk, "", "~", 50).items
            ]
        )
        == 30
    )
    _replay_what_is_encrypted(connection, definitions, tenant, cloud)
    job.line.runtime.clock = lambda: system_clock() + 8 * 86_400_000
    job.enqueue("late", ["done 0"])  # its window is over: it is taken anew
    job.line.runtime.clock = system_clock
    # Met only when written, as when two runs race; a large body that was put for nothing is taken back.
    for rows in (["done 1"], ["done 1", "alone"], [LARGE]):
        with pytest.MonkeyPatch.context() as race:
            race.setattr("millrace.spark.writer.Writer._read_first", lambda _self, _queue, batch, _lines: batch)
            job.enqueue("race", rows)
    job.look(["new 1", "done 0", "missing"])
    job.replay("again")
    job.run_again("machine")
    job.line.client.close()

    done = {Need(need.action, need.resource) for need in cloud.needs}
    role = {named(need) for need in allowed("BulkRole")}
    assert done | AROUND == role
    (denied,) = (found for found in statements("BulkRole") if found["Effect"] == "Deny")
    assert set(denied["Condition"]["ForAnyValue:StringEquals"]["dynamodb:LeadingKeys"]) == SECRETS
    assert not SECRETS & {need.partition for need in cloud.needs}


def named(need: Need) -> Need:
    if "log-group:/aws-glue/" in need.resource:
        return Need(need.action, "logs")
    return Need(need.action, need.resource.replace("arn:AWS::Partition}:s3:::BulkBucket}", "BulkBucket"))


def _replay_what_is_encrypted(connection: TableConnection, definitions: bytes, tenant: str, cloud: Cloud) -> None:
    """By a process that has encrypted nothing itself: it asks KMS for each key once."""
    first = Job(connection, definitions, tenant, "Secret")
    first.enqueue("secret", ["dead"])
    assert {need.action for need in cloud.needs if need.resource == "EncryptionKeys"} == {"kms:GenerateDataKey"}
    with pytest.MonkeyPatch.context() as quiet:
        quiet.setattr(cloud, "_note", lambda *_: None)
        (held,) = claim(first.queue(), owner="w", lease_ms=60_000).claims
        reject(first.queue(), held.entry, held.message, RunFailure("Broken", "broken"))
    another = Job(replace(connection, deadline_s=19.0), definitions, tenant, "Secret")
    another.replay("secret again")
    another.line.client.close()
