"""Lives of messages as rows: what an executor makes of the facts of an id, and the columns that come of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from millrace.engine.bodies import Bodies
from millrace.engine.data_keys import DataKeys
from millrace.engine.dictionaries import Dictionaries
from millrace.engine.encryption import Encryption
from millrace.model.clock import system_clock, system_entropy
from millrace.model.dictionary import StoredDictionary
from millrace.model.errors import BodyLost, DictionaryLost, InvalidField
from millrace.model.message import Message
from millrace.spark.connection import TableConnection, connect
from millrace.spark.data.exports import KnownDictionary
from millrace.spark.data.facts import FACTS, FactKind, fact_of_row
from millrace.spark.data.lives import Kept, Life, Lives, Views, fingerprint_of, lives_of, written_facts

#: Times are milliseconds here, and timestamps in what a reader gets.
TIMES = ("received_at", "started_at", "ended_at", "replayed_at", "expires_at", "seen_at")
_RUN = [("number", pa.int32()), ("version", pa.int32()), ("owner", pa.string()), ("started_at", pa.int64()),
        ("ended_at", pa.int64()), ("error_type", pa.string()), ("error", pa.string())]  # fmt: skip
_KINDS = {
    "string": pa.string(), "binary": pa.binary(), "int": pa.int32(), "long": pa.int64(), "boolean": pa.bool_(),
    "array<string>": pa.list_(pa.string()), "map<string,string>": pa.map_(pa.string(), pa.string()),
    "runs": pa.list_(pa.struct(_RUN)),
}  # fmt: skip
_RUNS_DDL = (
    "array<struct<number:int,version:int,owner:string,started_at:bigint,ended_at:bigint,"
    "error_type:string,error:string>>"
)
LIFE = {
    "tenant": "string", "queue": "string", "message_id": "string", "nonce": "string", "status": "string",
    "received_at": "long", "started_at": "long", "ended_at": "long", "runs": "int", "attempts": "int",
    "deliveries": "int", "priority": "int", "key": "string", "project": "string", "labels": "array<string>",
    "correlation_id": "string", "idempotency_key": "string", "source": "string", "origin": "string", "run": "string",
    "content_type": "string", "headers": "map<string,string>", "size": "int", "body": "binary", "body_lost": "boolean",
    "result": "string", "reason": "string", "error_type": "string", "error": "string", "fingerprint": "string",
    "history": "runs", "dead_letter": "string", "replayed_at": "long", "replayed_as": "string", "replay_job": "string",
    "write_units": "int", "expires_at": "long", "seen_at": "long", "facts": "string", "erased_at": "long",
}  # fmt: skip
LIFE_DDL = ", ".join(f"`{name}` {_RUNS_DDL if kind == 'runs' else kind}" for name, kind in LIFE.items())
_SCHEMA = pa.schema([(name, _KINDS[kind]) for name, kind in LIFE.items()])
#: What is remembered of a lake's row.
KEPT_DDL = "array<struct<facts:string,body:binary,body_lost:boolean,loose:boolean>>"


@dataclass(frozen=True, slots=True)
class Deriving:
    """What an executor needs to tell lives."""

    views: Views
    connection: TableConnection | None  #: where large bodies lie; None: they are left out
    tenant: str | None = None
    queue: str | None = None
    bodies: bool = True
    received: tuple[int, int] = (0, 2**62)  #: from, before (milliseconds)
    dictionaries: tuple[KnownDictionary, ...] = ()  #: what bodies are packed with, where there is no connection
    decrypts: bool = True  #: encrypted bodies are read; False where what is read is kept, and would outlive their key

    def wants(self, message: Message) -> bool:
        of_queue = self.tenant in (None, message.tenant) and self.queue in (None, message.queue)
        return of_queue and self.received[0] <= message.received_at < self.received[1]

    def read_body(self, message: Message) -> bytes:
        """A body; none of what nobody asked for.

        Raises as `read_message_body`, and BodyLost for one that is to be left encrypted.
        """
        if not self.wants(message):
            return b""
        if message.body.encrypted and not self.decrypts:
            raise BodyLost(f"The body of message {message.id!r} is encrypted, and not kept in plain.")
        return read_message_body(self, message)


def lives_by_id(facts: DataFrame, deriving: Deriving, kept: DataFrame | None = None) -> DataFrame:
    """The columns of LIFE, a row for each life of each id that the facts (or `kept`) name.

    Beside them, without a tenant: `erased_at` of an id that was erased, and `facts` whose message was not seen yet.
    """
    grouped = facts.where(F.col("kind") != FactKind.AUDIT_EVENT.value).groupBy("id")
    together = grouped.agg(F.collect_list(F.struct(*FACTS.names)).alias("facts"))
    if kept is None:
        nothing = F.array().cast(KEPT_DDL)
        together = together.select("id", "facts", nothing.alias("kept"), F.lit(0).cast("long").alias("erased_at"))
    else:
        together = together.join(kept, "id", "full_outer").select("id", "facts", "kept", "erased_at")
    return together.mapInArrow(partial(_derive, deriving), LIFE_DDL)


def _derive(deriving: Deriving, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows: list[dict[str, Any]] = []
        for given in batch.to_pylist():
            found = _lives(deriving, given)
            if found.erased_at:
                rows.append({"message_id": given["id"], "erased_at": found.erased_at})
            if found.loose:
                rows.append({"message_id": given["id"], "facts": written_facts(found.loose)})
            rows += [life_row(life) for life in found.lives if deriving.wants(life.message)]
        yield pack_lives(rows)


def pack_lives(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)


def _lives(deriving: Deriving, given: dict[str, Any]) -> Lives:
    facts = [fact_of_row(*(row[name] for name in FACTS.names)) for row in given["facts"] or ()]
    kept = [Kept(row["facts"], row["body"], bool(row["body_lost"]), row["loose"]) for row in given["kept"] or ()]
    read = deriving.read_body if deriving.bodies else None
    return lives_of(given["id"], facts, deriving.views, kept=kept, erased_at=given["erased_at"] or 0, read=read)


def read_message_body(deriving: Deriving, message: Message) -> bytes:
    """A body, from its item or from S3. Raises BodyLost, or StoreUnavailable so that the task is tried again.

    Raises InvalidField for one whose dictionary or key is neither in the exports nor to be asked for: it is not lost.
    """
    if deriving.connection:
        return connect(deriving.connection).runtime.bodies.read(message)
    if message.body.encrypted:
        problem = f"is missing, and the body of message {message.id!r} is encrypted: {message.queue!r} names a KMS key"
        raise InvalidField("connection", problem, "the deployment's tables, as a role that may use the key")
    try:
        return _offline_bodies(deriving.dictionaries).read(message)
    except DictionaryLost as error:
        allowed = "the deployment's tables, or exports that hold it (a full one does)"
        raise InvalidField(
            "connection", f"is missing, and the exports do not hold what is needed: {error}", allowed
        ) from error


@lru_cache(maxsize=4)
def _offline_bodies(dictionaries: tuple[KnownDictionary, ...]) -> Bodies:
    encryption = Encryption(DataKeys(None, system_clock), system_entropy)
    return Bodies(_NoBlobs(), Dictionaries(_Exported(dictionaries), system_clock), encryption)


class _Exported:
    """Dictionaries as exports hold them."""

    def __init__(self, dictionaries: tuple[KnownDictionary, ...]) -> None:
        self._known = {(one.tenant, one.queue, one.stored.name): one.stored for one in dictionaries}

    def get_dictionary(self, tenant: str, queue: str, name: str) -> StoredDictionary | None:
        return self._known.get((tenant, queue, name))


class _NoBlobs:
    """For bodies that lie in their items."""

    def put(self, key: str, data: bytes) -> None:
        raise NotImplementedError

    def get(self, key: str) -> bytes:
        raise BodyLost(f"Nobody said in which bucket {key!r} lies.")

    def delete(self, key: str) -> None:
        raise NotImplementedError


def life_row(life: Life) -> dict[str, Any]:
    """A life in the columns of LIFE; what is not known is null."""
    message, entry, dead = life.message, life.entry, life.dead_letter
    told = dead or entry
    last = life.history[-1] if life.history else None
    return {
        "tenant": message.tenant,
        "queue": message.queue,
        "message_id": message.id,
        "nonce": message.nonce,
        "status": life.status.value if life.status else None,
        "received_at": message.received_at,
        "started_at": life.started_at or None,
        "ended_at": life.ended_at or None,
        "runs": life.runs,
        "attempts": max(len(life.history), told.attempts if told else 0),
        "deliveries": told.deliveries if told else None,
        "priority": told.priority if told else None,
        "key": told.key or None if told else None,
        "project": told.project or None if told else None,
        "labels": list(told.labels) if told else None,
        "correlation_id": message.correlation_id or None,
        "idempotency_key": message.idempotency_key or None,
        "source": message.source or None,
        "origin": message.origin or None,
        "run": message.run or None,
        "content_type": message.content_type,
        "headers": list(message.headers.items()),
        "size": message.body.size,
        "body": life.body,
        "body_lost": life.body_lost,
        "result": _result(life),
        "reason": dead.reason.value if dead else None,
        "error_type": dead.error_type if dead else last.error_type if last else None,
        "error": dead.error if dead else last.error if last else None,
        "fingerprint": fingerprint_of(life),
        "history": [{name: getattr(run, name) for name, _ in _RUN} for run in life.history],
        "dead_letter": dead.sk if dead else (life.location.dead_letter or None) if life.location else None,
        "replayed_at": dead.replayed_at or None if dead else None,
        "replayed_as": dead.replayed_as or None if dead else None,
        "replay_job": dead.replay_job or None if dead else None,
        "write_units": life.write_units,
        "expires_at": message.ttl * 1000,
        "seen_at": life.seen_at // 1000,
        "facts": written_facts(life.facts),
        "erased_at": None,
    }


def _result(life: Life) -> str | None:
    """What it gave, as text. An encrypted one is not read here: `millrace status` shows it to who may see it."""
    result = life.result
    if result is None or not result.snapshot or result.encrypted:
        return None
    return result.snapshot.decode("utf-8", "replace")


def with_times(rows: DataFrame) -> DataFrame:
    """The same rows with timestamps for milliseconds, those of the failed runs too."""
    columns: list[Column] = []
    for name in rows.columns:
        column = F.col(name)
        if name in TIMES:
            column = F.expr(f"timestamp_millis({name})")
        elif name == "history":
            column = F.expr(
                "transform(history, run -> struct(run.number, run.version, run.owner, "
                "timestamp_millis(run.started_at) as started_at, timestamp_millis(run.ended_at) as ended_at, "
                "run.error_type, run.error))"
            )
        columns.append(column.alias(name))
    return rows.select(*columns)
