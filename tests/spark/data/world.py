"""A deployment of its own that lives through days in virtual time, and DynamoDB's exports of it.

Exports are written as AWS documents them ("DynamoDB table export output format"): manifests, gzipped lines, full
exports in a folder of their own, incremental ones with one final state for each item and nothing for what came and
went within the window. Write times come from a look at the tables after each step.
"""

from __future__ import annotations

import gzip
import itertools
import json
import random
from base64 import b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import md5
from pathlib import Path
from typing import Any

from mypy_boto3_dynamodb import DynamoDBClient

from infra.local.dynamodb import REGION
from millrace.definitions import load
from millrace.engine.claim import claim
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.enqueue import enqueue
from millrace.engine.filtered import record_filtered
from millrace.engine.finish import RunFailure, ack, nack
from millrace.engine.operate import cancel_message
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import status
from millrace.model.message import Draft
from millrace.spark.connection import TableConnection
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.items import Item
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.memory.queue import MemoryBlobs
from tests.conftest import Clock

_numbers = itertools.count(1)
Key = tuple[str, str, str]


@dataclass
class Known:
    """What the oracle knows of a message: plain Python, by what was done to it and nothing else."""

    id: str
    queue: str
    body: bytes
    received_at: int
    status: str = "ready"
    failures: int = 0
    erased: bool = False
    ended_at: int = 0
    due: int = 0  #: while it backs off

    def status_at(self, now: int) -> str:
        return self.status if self.status != "scheduled" or self.due > now else "ready"


class World:
    """Tables, a clock, queues, and everything that happened, by hand."""

    def __init__(
        self, client: DynamoDBClient, engine_url: str, definitions: bytes, folder: Path, clock: Clock, seed: int = 1
    ) -> None:
        name = f"data-{id(self):x}-{next(_numbers)}"
        self.names = TableNames(f"{name}-queue", f"{name}-dead")
        create_tables(self.names, endpoint_url=engine_url, region=REGION)
        self.client = client
        self.engine_url = engine_url
        self.definitions = definitions
        self.folder = folder
        self.clock = clock
        self.chance = random.Random(seed)
        self.runtime = Runtime(DynamoStore(client, self.names, clock=clock), MemoryBlobs(), clock=clock)
        self.known: dict[str, Known] = {}
        self.held: list[tuple[Queue, Any]] = []
        self._written: dict[Key, tuple[int, Item | None]] = {}
        self._exports = itertools.count(1)
        self._before: dict[Key, Item] = {}
        self._since = clock.now * 1000

    @property
    def connection(self) -> TableConnection:
        return TableConnection(self.names.queue, self.names.dead_letters, "none", REGION, self.engine_url)

    def queue(self, name: str = "Jobs") -> Queue:
        return self.runtime.queue("acme", load(self.definitions).queue(name).spec)

    # -- what happens ------------------------------------------------------------------------------------------------

    def send(self, body: bytes | None = None, queue: str = "Jobs", **draft: Any) -> Known:
        data = body if body is not None else json.dumps({"n": len(self.known)}).encode()
        receipt = enqueue(self.queue(queue), Draft(data, source="webhook:GitHub", **draft))
        known = Known(receipt.message_id, queue, data, self.clock.now)
        self.known[known.id] = known
        self._look()
        return known

    def send_filtered(self, queue: str = "Jobs") -> Known:
        data = json.dumps({"noise": len(self.known)}).encode()
        receipt = record_filtered(self.queue(queue), Draft(data, idempotency_key=f"noise-{len(self.known)}"))
        known = Known(
            receipt.message_id, queue, b"", self.clock.now, "filtered", ended_at=self.clock.now
        )  # no body is kept
        self.known[known.id] = known
        self._look()
        return known

    def take(self, count: int = 1, queue: str = "Jobs") -> list[Known]:
        """Claim some."""
        claims = claim(self.queue(queue), owner="w", limit=count).claims
        self.held += [(self.queue(queue), held) for held in claims]
        for held in claims:
            self.known[held.message.id].status = "in_flight"
        self._look()
        return [self.known[held.message.id] for held in claims]

    def finish(self, *, result: bytes | None = b'{"ok":true}') -> None:
        """Everything that is held is done."""
        for queue, held in self.held:
            assert ack(queue, [held.entry], [result]) == [None]
            known = self.known[held.message.id]
            known.status, known.ended_at = "done", self.clock.now
        self.held.clear()
        self._look()

    def fail(self, error: str = "no route to 10.0.0.7") -> None:
        """Everything that is held fails: again later, or dead."""
        for queue, held in self.held:
            nack(queue, held.entry, held.message, RunFailure("ConnectionError", error))
            known = self.known[held.message.id]
            known.failures += 1
            last = known.failures == queue.spec.delivery.max_attempts
            known.status, known.ended_at = ("dead", self.clock.now) if last else ("scheduled", 0)
            entry = status(queue, known.id).entry
            known.due = entry.due if entry else 0
        self.held.clear()
        self._look()

    def cancel(self, known: Known) -> None:
        cancel_message(self.queue(known.queue), known.id)
        known.status, known.ended_at, known.failures = "purged", self.clock.now, 0
        known.body = b""  # a purge erases what was sent
        self._look()

    def erase(self, known: Known) -> None:
        """All that is stored of a message goes, as an erasure takes it."""
        for (table, pk, sk), item in self._items().items():
            if pk == f"M#{known.id}" or item.get("id", {}).get("S") == known.id:
                self.client.delete_item(TableName=table, Key={"pk": {"S": pk}, "sk": {"S": sk}})
        known.erased = True
        self._look()

    def clean_up(self) -> None:
        """DynamoDB's TTL, once it gets round to it."""
        for (table, pk, sk), item in self._items().items():
            if "ttl" in item and int(item["ttl"]["N"]) * 1000 < self.clock.now:
                self.client.delete_item(TableName=table, Key={"pk": {"S": pk}, "sk": {"S": sk}})
        self._look()

    def forward(self, seconds: float) -> None:
        self.clock.forward(round(seconds * 1000))

    # -- exports -----------------------------------------------------------------------------------------------------

    def export_full(self, *, files: int = 2) -> str:
        """Full exports of both tables now; the path that holds them."""
        items = self._items()
        root = self._root()
        for table in self.names:
            lines = [{"Item": item} for (of, _, _), item in items.items() if of == table]
            self._write(root, table, lines, files, {"exportTime": _moment(self.clock.now), "version": "2020-06-30"})
        return str(root)

    def export_changes(self, *, files: int = 2) -> str:
        """Incremental exports of both tables since the last one; the path that holds them."""
        root, until = self._root(), self.clock.now * 1000
        now = self._items()
        for table in self.names:
            lines = []
            for key, (at, new) in self._written.items():
                old = self._before.get(key)
                if key[0] != table or not self._since <= at < until or (old is None and new is None):
                    continue
                line: dict[str, Any] = {"Metadata": {"WriteTimestampMicros": {"N": str(at)}}}
                line["Keys"] = {"pk": {"S": key[1]}, "sk": {"S": key[2]}}
                line |= ({"NewImage": new} if new else {}) | ({"OldImage": old} if old else {})
                lines.append(line)
            said = {
                "version": "2023-08-01", "exportType": "INCREMENTAL_EXPORT", "outputView": "NEW_AND_OLD_IMAGES",
                "exportFromTime": _moment(self._since // 1000), "exportToTime": _moment(until // 1000),
            }  # fmt: skip
            self._write(root, table, lines, files, said, shared=True)
        self._since = until
        self._before = now
        self._written = {key: found for key, found in self._written.items() if found[0] >= until}
        return str(root)

    def _root(self) -> Path:
        return self.folder / "exports" / f"day-{next(self._exports)}"

    def _write(
        self, root: Path, table: str, lines: list[Any], files: int, said: dict[str, Any], *, shared: bool = False
    ) -> None:
        name = f"{self.clock.now:014d}-{md5(f'{root}{table}'.encode(), usedforsecurity=False).hexdigest()[:8]}"
        folder = root / "AWSDynamoDB" / name
        data = root / "AWSDynamoDB" / "data" if shared else folder / "data"
        data.mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        self.chance.shuffle(lines)
        listed = []
        for number in range(files):
            part = lines[number::files]
            text = "".join(json.dumps(line, default=_base64) + "\n" for line in part)
            path = data / f"{name[-8:]}{number}.json.gz"
            path.write_bytes(gzip.compress(text.encode()))
            key = f"a-prefix/{path.relative_to(root)}"
            listed.append({"itemCount": len(part), "md5Checksum": "", "etag": "", "dataFileS3Key": key})
        (folder / "manifest-files.json").write_text("".join(json.dumps(line) + "\n" for line in listed))
        arn = f"arn:aws:dynamodb:eu-west-1:123456789012:table/{table}"
        summary = {
            "exportArn": f"{arn}/export/{name}", "tableArn": arn, "tableId": "t", "startTime": "", "endTime": "",
            "s3Bucket": "exports", "s3Prefix": "a-prefix", "itemCount": len(lines), "outputFormat": "DYNAMODB_JSON",
            "manifestFilesS3Key": f"a-prefix/AWSDynamoDB/{name}/manifest-files.json", **said,
        }  # fmt: skip
        (folder / "manifest-summary.json").write_text(json.dumps(summary))

    def _items(self) -> dict[Key, Item]:
        found: dict[Key, Item] = {}
        for table in self.names:
            start: dict[str, Any] = {}
            while True:
                answer = self.client.scan(TableName=table, ConsistentRead=True, **start)
                for item in answer["Items"]:
                    found[table, item["pk"]["S"], item["sk"]["S"]] = item
                if "LastEvaluatedKey" not in answer:
                    break
                start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}
        return found

    def _look(self) -> None:
        """Note what the last step wrote, and when."""
        at = self.clock.now * 1000
        now = self._items()
        for key in {*now, *self._written, *self._before}:
            known = self._written[key][1] if key in self._written else self._before.get(key)
            if now.get(key) != known:
                self._written[key] = at, now.get(key)

    def statuses(self) -> dict[str, str]:
        """How every message stands that was not erased."""
        return {one.id: one.status_at(self.clock.now) for one in self.known.values() if not one.erased}

    def bodies(self) -> dict[str, bytes]:
        return {one.id: one.body for one in self.known.values() if not one.erased}

    def dead_letters(self, queue: str = "Jobs") -> list[Any]:
        return list(list_dead_letters(self.queue(queue), limit=100, newest_first=False).items)


def _moment(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _base64(value: Any) -> str:
    return b64encode(value).decode()
