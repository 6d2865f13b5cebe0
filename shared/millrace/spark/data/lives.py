"""What became of a message, by everything that was seen of its id. Pure: the same facts in any order, any number of
times, give the same lives.

An id can have several lives: once its window is over and it has ended, another message may take it. A life is told
apart by its nonce. How it ended:

    dead, purged     its location says so, or its dead letter
    done             its result says so; or its entry is gone: deleted, or missing from a later full view
    ready …          its entry was there when last seen
    (unknown)        neither was seen: the views that were merged do not reach that far

Of a message that was erased in its place (purged) the life stays, with nothing of what was sent.
A message that was taken out of the table before its time (`ttl`) was erased: it leaves, with all earlier lives of its
id. One that is gone after its time was cleaned up, and stays.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from typing import Any

from millrace.engine.inspect import status_of
from millrace.engine.status import FILTERED_PLACE, MessageStatus
from millrace.model.errors import BodyLost
from millrace.model.fingerprints import fingerprint
from millrace.model.keys import WAITING, WITHDRAWN
from millrace.model.message import ERASED, Attempt, DeadLetter, Entry, Message, MessageLocation, Result
from millrace.spark.data.facts import MICROS, Fact, FactKind, fact_of_item, read_item, written_item
from millrace.stores.dynamodb.dead_letters import dead_letter_of
from millrace.stores.dynamodb.items import entry_of, int_in, location_of, message_of, result_of

#: Views are no transactions: what was written so shortly before one may be missing from it (microseconds).
SKEW = 5_000_000
#: An entry is written before its message, by at most a minute: its sender gives up after that.
ENTRY_FIRST = 65_000_000
UNIT_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Views:
    """What was looked at in all: times of full views of the queue table, windows of incremental ones (microseconds)."""

    full: tuple[int, ...] = ()
    windows: tuple[tuple[int, int], ...] = ()

    def absent_by(self, seen_at: int) -> int | None:
        """The first full view that ought to have shown what was last seen at `seen_at`, and did not."""
        return min((at for at in self.full if at > seen_at + SKEW), default=None)

    def reaches(self, at: int, before: int = 0) -> bool:
        """Whether what was written at `at`, or up to `before` earlier, shows in these views unless it is gone again."""
        if any(full >= at + SKEW for full in self.full):
            return True
        return any(
            until >= at + SKEW and (since <= at - before or any(since <= full <= at for full in self.full))
            for since, until in self.stretches()
        )

    def known_until(self, seen_at: int) -> int:
        """Up to when it is known that what was seen at `seen_at` has not changed since."""
        return max((until for since, until in self.stretches() if since <= seen_at <= until), default=seen_at)

    def stretches(self) -> list[tuple[int, int]]:
        """The windows, those that touch as one."""
        joined: list[tuple[int, int]] = []
        for since, until in sorted(self.windows):
            if joined and since <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], until)
            else:
                joined.append((since, until))
        return joined

    def with_more(self, other: Views) -> Views:
        return Views(tuple(sorted({*self.full, *other.full})), tuple(sorted({*self.windows, *other.windows})))


@dataclass(frozen=True, slots=True)
class Kept:
    """What is remembered of an id from earlier: a life's facts and its body, which they leave out; or loose facts."""

    facts: str
    body: bytes | None = None
    body_lost: bool = False
    loose: bool = False


@dataclass(slots=True)
class Life:
    """A message and what became of it."""

    message: Message
    facts: list[Fact]
    status: MessageStatus | None = None
    started_at: int = 0
    ended_at: int = 0
    seen_at: int = 0  #: microseconds: the newest fact
    entry: Entry | None = None  #: as it was last seen, there or gone
    result: Result | None = None
    dead_letter: DeadLetter | None = None
    location: MessageLocation | None = None
    history: tuple[Attempt, ...] = ()
    body: bytes | None = None
    body_lost: bool = False
    write_units: int = 0

    @property
    def runs(self) -> int:
        """Runs that are known of: those that failed, and the one that did not."""
        return len(self.history) + (self.status is MessageStatus.DONE)


@dataclass(slots=True)
class Lives:
    """All lives of one id; when it was erased, if it was (milliseconds); facts whose message was not seen yet."""

    lives: list[Life] = field(default_factory=list)
    erased_at: int = 0
    loose: list[Fact] = field(default_factory=list)


def lives_of(
    id_: str,
    facts: Iterable[Fact],
    views: Views,
    *,
    kept: Sequence[Kept] = (),
    erased_at: int = 0,
    read: Callable[[Message], bytes] | None = None,
) -> Lives:
    """The lives of an id by all that was ever seen of it.

    `read` fetches a body; it may raise BodyLost. `kept` are lives from earlier, and `erased_at` when the id was
    found erased. Nothing is taken from one call to the next but what it returns.
    """
    remembered = [(one, _kept_facts(one)) for one in kept]
    newest = _newest([*facts, *(fact for _, own in remembered for fact in own)])
    bodies = {own[0].nonce: one for one, own in remembered if own and not one.loose}
    of_life: dict[str, list[Fact]] = {}
    for fact in newest:
        of_life.setdefault(fact.nonce, []).append(fact)
    of_life = {nonce: _without_the_erased(own) for nonce, own in of_life.items()}
    erased_at = max(erased_at, _erased_at(newest, views))
    found = Lives(erased_at=erased_at)
    for nonce, own in sorted(of_life.items()):
        if not any(fact.kind is FactKind.MESSAGE for fact in own):
            found.loose += own
            continue
        life = _life(id_, own, views)
        if life is None or life.message.received_at < erased_at:
            continue
        _give_body(life, bodies.get(nonce), read)
        found.lives.append(life)
    found.lives.sort(key=lambda life: (life.message.received_at, life.message.nonce))
    return found


def _newest(facts: Iterable[Fact]) -> list[Fact]:
    """Of each item of each life the newest fact; of two of one time, that it was gone."""
    newest: dict[tuple[str, str], Fact] = {}
    for fact in facts:
        key = fact.key, fact.nonce
        known = newest.get(key)
        if known is None or (fact.at, fact.gone) > (known.at, known.gone):
            newest[key] = fact
    return list(newest.values())


def _without_the_erased(facts: list[Fact]) -> list[Fact]:
    """Of a message that was erased no more than what it left behind: that it was there, and when it was taken out."""
    husk = any(fact.kind is FactKind.MESSAGE and fact.item["place"]["S"] == ERASED for fact in facts)
    left = (FactKind.MESSAGE, FactKind.LOCATION)
    return [fact for fact in facts if fact.kind in left and not fact.gone] if husk else facts


def _erased_at(facts: Iterable[Fact], views: Views) -> int:
    """When the id was found to be erased, in milliseconds; 0 where it was not.

    Its message was deleted before its time; or a full view lacks it; or another message took the id while the window
    of its idempotency key was open, which only an erased one lets happen.
    """
    seen = sorted((fact for fact in facts if fact.kind is FactKind.MESSAGE), key=lambda fact: (fact.at, fact.gone))
    found = [fact.at for fact in seen if fact.gone and fact.at < _expires(fact)]
    if seen and not seen[-1].gone:
        absent = views.absent_by(seen[-1].at)
        found += [absent] if absent is not None and absent < _expires(seen[-1]) else []
    lives = sorted((int_in(fact.item, "at"), int_in(fact.item, "dedupe")) for fact in seen)
    found += [later * MICROS for (_, until), (later, _) in pairwise(lives) if later < until]
    return max(found, default=0) // MICROS


def _expires(fact: Fact) -> int:
    return int_in(fact.item, "ttl") * 1_000 * MICROS


def _life(id_: str, facts: list[Fact], views: Views) -> Life | None:
    """One life by the newest fact of each of its items; None for a withdrawn marker, which is no message."""
    messages = [fact for fact in facts if fact.kind is FactKind.MESSAGE]
    if messages[0].item["place"]["S"] == WITHDRAWN:
        return None
    life = Life(message_of(messages[0].item, id_), facts, seen_at=max(fact.at for fact in facts))
    for fact in facts:
        match fact.kind:
            case FactKind.LOCATION:
                life.location = location_of(fact.item, id_)
            case FactKind.RESULT:
                life.result = result_of(fact.item, id_)
            case FactKind.DEAD_LETTER:
                life.dead_letter = dead_letter_of(fact.item)
    there = _entries_there(facts, views)
    entries = [fact for fact in facts if fact.kind is FactKind.ENTRY]
    last = max(there or entries, key=lambda fact: fact.at, default=None)
    life.entry = entry_of(last.item) if last else None
    life.history = _history(life)
    _settle(life, there, views)
    life.started_at = _started_at(life)
    life.write_units = write_units(life, messages[0].item)
    return life


def _entries_there(facts: list[Fact], views: Views) -> list[Fact]:
    """The entry where it was last seen. Its steps from place to place may be known in part: a later deletion counts."""
    entries = [fact for fact in facts if fact.kind is FactKind.ENTRY]
    gone_at = max((fact.at for fact in entries if fact.gone), default=0)
    return [
        fact for fact in entries if not fact.gone and fact.at + SKEW >= gone_at and views.absent_by(fact.at) is None
    ]


def _history(life: Life) -> tuple[Attempt, ...]:
    told = [life.dead_letter.history if life.dead_letter else (), life.location.history if life.location else ()]
    return max(told, key=len)


def _settle(life: Life, there: list[Fact], views: Views) -> None:
    """Set how it stands, and since when where it has ended."""
    location, message = life.location, life.message
    if message.place.sk == FILTERED_PLACE:
        life.status, life.ended_at = MessageStatus.FILTERED, message.received_at
    elif message.erased:
        life.status, life.ended_at = MessageStatus.PURGED, location.purged_at if location else 0
    elif life.dead_letter or (location and location.dead_letter):
        life.status, life.ended_at = MessageStatus.DEAD, _failed_at(life)
    elif location and location.purged_at:
        life.status, life.ended_at = MessageStatus.PURGED, location.purged_at
    elif life.result:
        life.status, life.ended_at = MessageStatus.DONE, life.result.finished_at
    elif there:
        seen = max(there, key=lambda fact: fact.at)
        life.status = status_of(entry_of(seen.item), views.known_until(seen.at) // MICROS)
    elif _surely_gone(life, views):
        deleted = [fact.at // MICROS for fact in life.facts if fact.kind is FactKind.ENTRY and fact.gone]
        life.status, life.ended_at = MessageStatus.DONE, max(deleted, default=0)


def _failed_at(life: Life) -> int:
    if life.dead_letter:
        return life.dead_letter.failed_at
    failed = life.location.dead_letter.partition("#")[0] if life.location else ""
    return int(failed) if failed.isdecimal() else 0


def _surely_gone(life: Life, views: Views) -> bool:
    """Whether the missing entry means that the message is done, and not that a view was torn or does not reach it.

    A retry takes the entry from one place to another: right after it, a view may show it at neither.
    """
    location = next((fact for fact in life.facts if fact.kind is FactKind.LOCATION), None)
    place = life.location.place if life.location and life.location.place else life.message.place
    deleted = max((fact for fact in life.facts if fact.kind is FactKind.ENTRY and fact.gone), key=_at, default=None)
    if deleted:
        elsewhere = deleted.key != f"{place.pk}\n{place.sk}"
        moved_on = location is not None and elsewhere and location.at + SKEW >= deleted.at
        if not moved_on:
            return True
    moved_at = max(life.history[-1].ended_at if life.history else 0, _due(place.sk))
    received_at = life.message.received_at
    shown = views.reaches(received_at * MICROS, ENTRY_FIRST)
    return shown and views.reaches(max(received_at, moved_at) * MICROS)


def _at(fact: Fact) -> int:
    return fact.at


def _due(sk: str) -> int:
    """When an entry of the waiting lane may be claimed: before that it cannot be done."""
    due = sk.removeprefix(WAITING).partition("#")[0]
    return int(due) if sk.startswith(WAITING) and due.isdecimal() else 0


def _started_at(life: Life) -> int:
    """When its first run began, as far as that is known."""
    claims = [life.entry.since] if life.entry else []
    return min((at for at in [*(run.started_at for run in life.history), *claims] if at), default=0)


def write_units(life: Life, item: Mapping[str, Any]) -> int:
    """What the message has cost so far in write units, by the rules of ARCHITECTURE.md; accounting is left out.

    An enqueue is 1 and the message's KB, a run 1 for its claim, a retry 6 with its claim, an ending 1, a kept result
    1, a dead letter a transaction over its entry, its location and the whole message.
    """
    stored = ceil(_size(item) / UNIT_BYTES)
    retries = max(0, len(life.history) - (life.status is MessageStatus.DEAD))
    units = 1 + stored + 6 * retries if life.status is not MessageStatus.FILTERED else stored
    if life.status is MessageStatus.DONE:
        units += 2 + (life.result is not None)
    if life.status is MessageStatus.DEAD:
        units += bool(life.history) + 2 * (2 + stored)
    return units


def _size(item: Mapping[str, Any]) -> int:
    """An item's bytes, more or less as DynamoDB counts them; a body that was left out counts by its length."""
    body = int(item["body_bytes"]["N"]) if "body_bytes" in item else len(item.get("body", {}).get("B", b""))
    return body + sum(
        len(name) + len(str(next(iter(value.values())))) for name, value in item.items() if name != "body"
    )


def _give_body(life: Life, kept: Kept | None, read: Callable[[Message], bytes] | None) -> None:
    if life.message.erased:
        return
    if kept is not None:
        life.body, life.body_lost = kept.body, kept.body_lost
    elif read is not None:
        try:
            life.body = read(life.message)
        except BodyLost:
            life.body_lost = True


def fingerprint_of(life: Life) -> str | None:
    """The group of its error, as the console groups dead letters."""
    if life.dead_letter:
        return life.dead_letter.fingerprint
    return fingerprint(life.history[-1].error_type, life.history[-1].error) if life.history else None


def written_facts(facts: Iterable[Fact]) -> str:
    """Facts to be remembered: without the body, which is kept beside them."""
    return json.dumps(
        [[fact.at, fact.gone, written_item(_without_body(fact.item))] for fact in sorted(facts, key=_order)],
        separators=(",", ":"),
    )


def _order(fact: Fact) -> tuple[str, str]:
    return fact.kind.value, fact.key + fact.nonce


def _without_body(item: Mapping[str, Any]) -> dict[str, Any]:
    if "body" not in item:
        return dict(item)
    rest = {name: value for name, value in item.items() if name != "body"}
    return rest if "body_bytes" in rest else {**rest, "body_bytes": {"N": str(len(item["body"]["B"]))}}


def _kept_facts(kept: Kept) -> list[Fact]:
    found = [fact_of_item(read_item(json.loads(image)), at, gone=gone) for at, gone, image in json.loads(kept.facts)]
    return [fact for fact in found if fact is not None]
