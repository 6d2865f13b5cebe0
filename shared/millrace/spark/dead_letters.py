"""Dead letters by the million: from their table or its export to S3, filtered, as rows that replay them.

Both give the same text: a line of the export, `{"Item": {…}}` in DynamoDB's JSON. So one reader serves both.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from millrace.definitions import load
from millrace.engine.dead_letters import note_replay, replay_draft, replay_key
from millrace.engine.queue import Queue, Runtime
from millrace.model.errors import StoreUnavailable
from millrace.model.ids import keyed_message_id
from millrace.model.message import DeadLetter, DeadLetterFilter
from millrace.spark.connection import TableConnection, connect
from millrace.spark.row_mapping import rejected
from millrace.spark.rows import Columns, Position, Row, pack
from millrace.stores.dynamodb.dead_letters import dead_letter_item, dead_letter_of
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore

PAGE = 100
LINES = Columns(path="string", block="long", value="string")


@dataclass(frozen=True, slots=True)
class Replay:
    """Which dead letters to replay, and as which job."""

    connection: TableConnection
    definitions: bytes
    queue: str
    tenant: str
    job: str
    only: DeadLetterFilter
    now: int  #: dead letters that the table may forget by then are gone


def read_dead_letters(replay: Replay, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The table's dead letters of each span of time (`after` to `upto`), on an executor."""
    runtime = connect(replay.connection).runtime
    for batch in batches:
        for after, upto in zip(batch.column("after").to_pylist(), batch.column("upto").to_pylist(), strict=True):
            position = after
            while position is not None:
                page = runtime.store.read_dead_letters(replay.tenant, replay.queue, position, upto, PAGE)
                position = page.next
                lines = [export_line(dead_letter) for dead_letter in page.items]
                if lines:
                    yield LINES.batch([[replay.connection.dead_letter_table] * len(lines), [0] * len(lines), lines])


def dead_letter_rows(replay: Replay, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The dead letters that match, each as the row that replays it; lines that are none are rejected."""
    spec = load(replay.definitions).queue(replay.queue).spec
    queue = Runtime(MemoryStore(), MemoryBlobs()).queue(replay.tenant, spec)
    before, number = "", 0
    for batch in batches:
        rows = []
        columns = (batch.column(name).to_pylist() for name in LINES.names)
        for path, block, line in zip(*columns, strict=True):
            before, number = path, number + 1 if path == before else 0
            row = _row(replay, queue, Position(path, block, number), line)
            if row is not None:
                rows.append(row)
        if rows:
            yield pack(rows)


def _row(replay: Replay, queue: Queue, position: Position, line: str) -> Row | None:
    if not line.strip():
        return None
    try:
        dead_letter = exported_dead_letter(line)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return rejected(position, replay.tenant, "invalid_message: no line of a dead-letter export", line.encode())
    message = dead_letter.message
    if (message.tenant, message.queue) != (queue.tenant, queue.spec.name):
        return None
    in_time = replay.only.failed_from <= dead_letter.failed_at < replay.only.failed_before
    if not in_time or not replay.only.matches(dead_letter) or dead_letter.ttl * 1000 <= replay.now:
        return None
    # The body may lie in a blob; whoever writes the row reads it then.
    system_key = replay_key(dead_letter, replay.job)
    return Row(
        position,
        queue.tenant,
        keyed_message_id(queue.tenant, queue.spec.name, system_key),
        replay_draft(queue, dead_letter, b""),
        system_key=system_key,
        dead_letter=line,
    )


def with_body(queue: Queue, row: Row) -> Row:
    """The row of a dead letter with its body, fit to be written. Raises StoreUnavailable or BodyLost."""
    dead_letter = exported_dead_letter(row.dead_letter)
    draft = replay_draft(queue, dead_letter, queue.runtime.bodies.read(dead_letter.message))
    return replace(row, draft=replace(draft, run=row.draft.run, once=True))


def mark_replayed(queue: Queue, row: Row) -> None:
    """Note on the dead letter what became of it. A lost note costs nothing: the new message says it as well."""
    replayed = replace(
        exported_dead_letter(row.dead_letter), replayed_at=queue.now(), replayed_as=row.id, replay_job=row.draft.run
    )
    with suppress(StoreUnavailable):
        note_replay(queue, replayed)


def mark_dead_letter(source: str, queue: Queue, row: Row) -> None:
    """The same for a message of the queue `source` that died and is replayed by its dead letter's id alone: where it is
    there still.
    """
    if not row.dead_letter:
        return
    of = queue.runtime.queue(queue.tenant, replace(queue.spec, name=source))
    with suppress(StoreUnavailable):
        found = of.store.get_dead_letter(of.tenant, source, row.dead_letter)
        if found is not None and found.replay_job != row.draft.run:
            note_replay(of, replace(found, replayed_at=of.now(), replayed_as=row.id, replay_job=row.draft.run))


def export_line(dead_letter: DeadLetter) -> str:
    return json.dumps({"Item": dead_letter_item(dead_letter)}, default=_encoded, separators=(",", ":"))


def exported_dead_letter(line: str) -> DeadLetter:
    """The dead letter that a line of an export spells."""
    item: Mapping[str, Any] = json.loads(line)["Item"]
    return dead_letter_of({name: _decoded(value) for name, value in item.items()})


def _encoded(value: Any) -> str:
    return b64encode(value).decode("ascii")


def _decoded(value: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"B": b64decode(value["B"], validate=True)} if "B" in value and isinstance(value["B"], str) else value
