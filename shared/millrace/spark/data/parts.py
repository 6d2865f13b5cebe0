"""What one task reads, without a session and without a shuffle: for `spark.read.format("millrace")`.

segment   a part of a table's scan. All that lies under a message's id is met together; entries and dead letters are
          looked up by it
ids       messages that were asked for by their ids: a query each, no scan; so are the dead letters of a queue
share     of exports, the items whose hash falls to this task. Each task reads every file of them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from zlib import crc32

from millrace.engine.status import FILTERED_PLACE, MessageStatus
from millrace.model.audit import AuditEvent
from millrace.model.errors import BodyLost, InvalidField
from millrace.model.keys import WITHDRAWN
from millrace.spark.adaptive_throttle import AdaptiveThrottle
from millrace.spark.connection import TableConnection, connect
from millrace.spark.data.export_files import ExportFile, read_text
from millrace.spark.data.facts import MICROS, Fact, FactKind, NoExportLine, fact_of_item, fact_of_line
from millrace.spark.data.lives import Life, Views, lives_of
from millrace.spark.data.message_rows import Deriving, read_message_body
from millrace.spark.data.scans import AT_ONCE, TableScan, look_again
from millrace.stores.dynamodb.audit import audit_event_of
from millrace.stores.dynamodb.dead_letters import dead_letter_item, dead_letter_of
from millrace.stores.dynamodb.items import Item, location_of
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.scans import scan_segment

THREADS = 8
_UNDER_ID = "M#"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a table's scan; `units_per_s` are this task's read units."""

    table: str
    number: int
    of: int
    units_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Ids:
    """Messages by their ids."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportShare:
    """One task's share of exports."""

    number: int
    of: int
    files: tuple[ExportFile, ...]
    dead_letters_from: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """Dead letters of one queue by when they failed (milliseconds): a query, no scan."""

    tenant: str
    queue: str
    since: int = 0
    before: int = 10**13 - 1


@dataclass(frozen=True, slots=True)
class AuditOf:
    """The audit events of one tenant: a query, no scan."""

    tenant: str


Part = Segment | Ids | Failed | AuditOf | ExportShare


@dataclass(frozen=True, slots=True)
class Reading:
    """What the tasks of a read need to know."""

    deriving: Deriving
    started_at: int  #: milliseconds

    @property
    def connection(self) -> TableConnection:
        if self.deriving.connection is None:
            raise InvalidField("connection", "is missing", "the tables to read")
        return self.deriving.connection

    @property
    def scan(self) -> TableScan:
        return TableScan(self.connection, self.started_at)

    def calls(self) -> RetryingClient:
        return RetryingClient(connect(self.connection).client, deadline_s=self.connection.deadline_s)  # type: ignore[arg-type]


def read_lives(reading: Reading, part: Part) -> Iterator[Life]:
    """The messages of a part, with how they stand or ended."""
    facts_by_id = _facts_by_id(reading, part)
    read = reading.deriving.read_body if reading.deriving.bodies else None
    views = reading.deriving.views if isinstance(part, ExportShare) else Views((reading.started_at * MICROS,))
    for id_, facts in facts_by_id:
        lives = lives_of(id_, facts, views, read=read).lives
        yield from (life for life in lives if reading.deriving.wants(life.message))


def read_dead_lives(reading: Reading, part: Part) -> Iterator[Life]:
    """The dead letters of a part."""
    for fact in _facts(reading, part, FactKind.DEAD_LETTER):
        life = dead_life(reading.deriving, fact)
        if life is not None:
            yield life


def dead_life(deriving: Deriving, fact: Fact) -> Life | None:
    """A dead letter as the life that it ended; None for one of another queue."""
    dead = dead_letter_of(fact.item)
    message = dead.message
    if not deriving.wants(message):
        return None
    life = Life(message, [], MessageStatus.DEAD, ended_at=dead.failed_at, seen_at=fact.at, dead_letter=dead)
    life.history = dead.history
    life.started_at = min((run.started_at for run in dead.history), default=0)
    if deriving.bodies:
        try:
            life.body = read_message_body(deriving, message)
        except BodyLost:
            life.body_lost = True
    return life


def read_audit_events(reading: Reading, part: Part) -> Iterator[AuditEvent]:
    """The audit events of a part."""
    deriving = reading.deriving
    for fact in _facts(reading, part, FactKind.AUDIT_EVENT):
        event = audit_event_of(fact.item)
        if deriving.tenant in (None, event.tenant) and deriving.queue in (None, event.queue):
            yield event


def _facts(reading: Reading, part: Part, kind: FactKind) -> Iterator[Fact]:
    """The items of one kind, each as it stands."""
    at = reading.started_at * MICROS
    if isinstance(part, ExportShare):
        newest: dict[str, Fact] = {}
        for fact in _shared_facts(part, lambda fact: fact.key, lambda found: found is kind):
            known = newest.get(fact.key)
            if known is None or (fact.at, fact.gone) > (known.at, known.gone):
                newest[fact.key] = fact
        earliest = part.dead_letters_from if kind is FactKind.DEAD_LETTER else 0
        yield from (fact for fact in newest.values() if not fact.gone and fact.at >= earliest)
    else:
        found = (fact_of_item(item, at) for item in _items(reading, part))
        yield from (fact for fact in found if fact is not None and fact.kind is kind)


def _facts_by_id(reading: Reading, part: Part) -> Iterator[tuple[str, list[Fact]]]:
    if isinstance(part, ExportShare):
        grouped: dict[str, list[Fact]] = {}
        for fact in _shared_facts(part, lambda fact: fact.id, lambda kind: kind is not FactKind.AUDIT_EVENT):
            grouped.setdefault(fact.id, []).append(fact)
        yield from grouped.items()
        return
    met = _by_id(_items(reading, part), reading.started_at * MICROS)
    while batch := dict(islice(met, AT_ONCE)):
        _complete(reading, batch)
        yield from batch.items()


def _shared_facts(part: ExportShare, key: Callable[[Fact], str], wanted: Callable[[FactKind], bool]) -> Iterator[Fact]:
    for file in part.files:
        for line in read_text(file):
            if not line.strip():
                continue
            try:
                fact = fact_of_line(line, file.at)
            except NoExportLine as error:
                raise NoExportLine(f"{file.path}: {error}") from error
            if fact is not None and wanted(fact.kind) and crc32(key(fact).encode()) % part.of == part.number:
                yield fact


def _items(reading: Reading, part: Segment | Ids | Failed | AuditOf) -> Iterator[Item]:
    table = reading.connection.queue_table
    match part:
        case Ids():
            for id_ in part.ids:
                yield from reading.calls().query_all(table, f"{_UNDER_ID}{id_}")
        case AuditOf():
            yield from reading.calls().query_all(table, f"AUDIT#{part.tenant}")
        case Failed():
            yield from _failed_items(reading, part)
        case Segment():
            pace = AdaptiveThrottle(part.units_per_s)
            for page in scan_segment(reading.calls(), part.table, part.number, part.of, pace):
                yield from page


def _failed_items(reading: Reading, part: Failed) -> Iterator[Item]:
    store = connect(reading.connection).runtime.store
    position: str | None = f"{part.since:013d}"
    while position is not None:
        page = store.read_dead_letters(part.tenant, part.queue, position, f"{part.before:013d}", AT_ONCE)
        position = page.next
        yield from map(dead_letter_item, page.items)


def _by_id(items: Iterable[Item], at: int) -> Iterator[tuple[str, list[Fact]]]:
    """What lies under each message's id. A scan hands out all items of one partition key behind each other."""
    current: list[Fact] = []
    for item in items:
        fact = fact_of_item(item, at) if item["pk"]["S"].startswith(_UNDER_ID) else None
        if fact is None:
            continue
        if current and current[0].id != fact.id:
            yield current[0].id, current
            current = []
        current.append(fact)
    if current:
        yield current[0].id, current


def _complete(reading: Reading, batch: dict[str, list[Fact]]) -> None:
    """Add the entries of messages that have not ended, and the dead letters of those that died."""
    doubtful = [id_ for id_, facts in batch.items() if _doubtful(facts)]
    for fact in look_again(reading.scan, doubtful) if doubtful else ():
        batch[fact.id].append(fact)
    store = connect(reading.connection).runtime.store
    dead: list[tuple[str, str, str]] = []
    for id_, facts in batch.items():
        message = next((fact for fact in facts if fact.kind is FactKind.MESSAGE), None)
        locations = [location_of(fact.item, id_) for fact in facts if fact.kind is FactKind.LOCATION]
        named = {at.dead_letter for at in locations if at.dead_letter and message and at.nonce == message.nonce}
        if message is not None:
            dead += [(message.item["tenant"]["S"], message.item["queue"]["S"], sk) for sk in named]
    with ThreadPoolExecutor(THREADS, thread_name_prefix="dead-letter") as pool:
        for found in pool.map(lambda place: store.get_dead_letter(*place), dead):
            letter = fact_of_item(dead_letter_item(found), reading.started_at * MICROS) if found else None
            if letter is not None:
                batch[letter.id].append(letter)


def _doubtful(facts: Sequence[Fact]) -> bool:
    """A message without an ending of its own: its entry is somewhere, or it is done without a result."""
    message = next((fact for fact in facts if fact.kind is FactKind.MESSAGE), None)
    if message is None or message.item["place"]["S"] in (FILTERED_PLACE, WITHDRAWN):
        return False
    return not any(fact.kind is FactKind.RESULT and fact.nonce == message.nonce for fact in facts)
