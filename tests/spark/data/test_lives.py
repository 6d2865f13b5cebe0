"""What became of a message, by what was seen of it: any order, any number of times, torn views, several lives."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.engine.status import FILTERED_PLACE, MessageStatus
from millrace.model.errors import BodyLost
from millrace.model.keys import WITHDRAWN, waiting_place
from millrace.model.message import Attempt, Body, Entry, Message, MessageLocation, Result
from millrace.spark.data.facts import Fact, fact_of_item
from millrace.spark.data.lives import SKEW, Kept, Lives, Views, lives_of, written_facts
from millrace.stores.dynamodb.dead_letters import dead_letter_item
from millrace.stores.dynamodb.items import Item, entry_item, location_item, message_item, result_item
from tests.conftest import NOON
from tests.stores.samples import Samples, claimed

MS, SECOND, HOUR = 1_000, 1_000_000, 3_600_000_000
AT = NOON * MS


@dataclass
class Table:
    """A queue table in plain Python: the items of one id, every write with its time."""

    samples: Samples = field(default_factory=lambda: Samples("acme"))
    items: dict[tuple[str, str], Item] = field(default_factory=dict)
    writes: list[tuple[int, tuple[str, str], Item | None]] = field(default_factory=list)
    entry: Entry | None = None
    message: Message | None = None
    history: tuple[Attempt, ...] = ()
    status: str | None = None
    lives: dict[str, str] = field(default_factory=dict)  #: nonce → how it stands
    accepted: list[int] = field(default_factory=list)

    def put(self, at: int, item: Item) -> None:
        key = item["pk"]["S"], item["sk"]["S"]
        self.items[key] = item
        self.writes.append((at, key, item))

    def drop(self, at: int, key: tuple[str, str]) -> None:
        del self.items[key]
        self.writes.append((at, key, None))

    # -- what a queue does ---------------------------------------------------------------------------------------------

    def accept(self, at: int, number: int) -> None:
        now = at // MS
        self.accepted.append(at)
        entry = self.samples.entry(id="the-id", nonce=f"nonce-{number}", enqueued_at=now, attempts=0)
        message = self.samples.message(
            entry, received_at=now, ttl=now // 1000 + 14 * 86_400, dedupe_until=now + 86_400_000
        )
        self.put(at - 20 * MS, entry_item(entry))
        self.put(at, message_item(message))
        self.entry, self.message, self.history = entry, message, ()
        self.lives[message.nonce] = "ready"

    def claim(self, at: int) -> None:
        assert self.entry
        self.entry = claimed(self.entry, now=at // MS, lease=30_000)
        self.put(at, entry_item(self.entry))
        self._stands("in_flight")

    def _run(self, at: int) -> Attempt:
        assert self.entry
        return Attempt(len(self.history) + 1, self.entry.version, "w", self.entry.since, at // MS, "E", "broke")

    def retry(self, at: int) -> None:
        assert self.entry
        assert self.message
        self.history = (*self.history, self._run(at))
        due = at // MS + 60_000
        old, order = self.entry, f"{len(self.history):015d}"
        new = replace(old.unclaimed(), place=waiting_place(old.place.pk, due, order), due=due)
        self.drop(at, tuple(old.place))  # type: ignore[arg-type]
        self.put(at, entry_item(new))
        self.put(at, location_item(MessageLocation(new.id, new.nonce, new.place, 1, history=self.history)))
        self.entry = new
        self._stands("scheduled")

    def done(self, at: int, *, result: bool) -> None:
        assert self.entry
        self.drop(at, tuple(self.entry.place))  # type: ignore[arg-type]
        if result:
            self.put(at + MS, result_item(Result("the-id", self.entry.nonce, 1, at // MS, b"{}", 1)))
        self.entry = None
        self._stands("done")

    def die(self, at: int) -> None:
        assert self.entry
        assert self.message
        self.history = (*self.history, self._run(at))
        dead = self.samples.dead_letter(self.message, failed_at=at // MS, history=self.history)
        self.drop(at, tuple(self.entry.place))  # type: ignore[arg-type]
        self.put(at, dead_letter_item(dead))
        self.put(at, location_item(MessageLocation("the-id", self.entry.nonce, None, 1, dead.sk, history=self.history)))
        self.entry = None
        self._stands("dead")

    def erase(self, at: int) -> None:
        for key in list(self.items):
            self.drop(at, key)
        self.entry = self.message = None
        self.lives.clear()

    def expire(self, at: int) -> None:
        for key in [key for key in self.items if key[0].startswith("M#")]:
            self.drop(at, key)
        self.message = None

    def _stands(self, status: str) -> None:
        assert self.message
        self.lives[self.message.nonce] = status

    # -- what is seen of it --------------------------------------------------------------------------------------------

    def at(self, moment: int) -> dict[tuple[str, str], Item]:
        """How it stood just before a moment."""
        items: dict[tuple[str, str], Item] = {}
        for at, key, item in self.writes:
            if at < moment:
                items.pop(key, None) if item is None else items.__setitem__(key, item)
        return items

    def full(self, at: int) -> tuple[list[Fact], Views]:
        return _facts([(item, at, False) for item in self.at(at).values()]), Views((at,))

    def changes(self, since: int, until: int) -> tuple[list[Fact], Views]:
        before = self.at(since)
        last = {key: (at, item) for at, key, item in self.writes if since <= at < until}
        seen = []
        for key, (at, item) in last.items():
            if item is not None:
                seen.append((item, at, False))
            elif key in before:
                seen.append((before[key], at, True))
        return _facts(seen), Views((), ((since, until),))


def _facts(seen: list[tuple[Item, int, bool]]) -> list[Fact]:
    found = [fact_of_item(item, at, gone=gone) for item, at, gone in seen]
    return [fact for fact in found if fact is not None]


def merged(*parts: tuple[list[Fact], Views], read: Any = lambda message: message.body.data) -> Lives:
    """One merge after another, each knowing only what the last one kept."""
    views, known = Views(), Lives()
    for facts, more in parts:
        views = views.with_more(more)
        kept = [Kept(written_facts(life.facts), life.body, life.body_lost) for life in known.lives]
        kept += [Kept(written_facts(known.loose), loose=True)] if known.loose else []
        known = lives_of("the-id", facts, views, kept=kept, erased_at=known.erased_at, read=read)
    return known


def told(lives: Lives) -> dict[str, str | None]:
    return {life.message.nonce: life.status.value if life.status else None for life in lives.lives}


@st.composite
def histories(draw: st.DrawFn) -> tuple[Table, list[int]]:
    """Hours in the life of an id, at times that views cut through; a second life, an erasure, TTL."""
    table, at, number = Table(), AT, 1
    table.accept(at, number)
    for _ in range(draw(st.integers(0, 8))):
        at += draw(st.sampled_from([10 * SECOND, 70 * SECOND, HOUR]))
        if table.entry is None and table.message is not None:
            step = draw(st.sampled_from(["again", "nothing", "expire", "erase"]))
        elif table.entry is None:
            step = "again"
        elif table.entry.token and table.entry.until > at // MS:
            step = draw(st.sampled_from(["retry", "retry", "done", "quiet", "die", "erase"]))
        elif table.entry.due <= at // MS:
            step = draw(st.sampled_from(["claim", "claim", "claim", "erase"]))
        else:
            step = "nothing"
        if step == "again":
            number += 1
            if table.message is not None:  # within its window it would be a duplicate
                at = max(at, table.message.dedupe_until * MS + SECOND)
            table.accept(at, number)
        elif step == "expire":
            assert table.message
            at = max(at, table.message.ttl * 1_000_000 + HOUR)
            table.expire(at)
        elif step in ("done", "quiet"):
            table.done(at, result=step == "done")
        elif step != "nothing":
            getattr(table, step)(at)
    return table, sorted({AT - 2 * HOUR, at + 2 * HOUR})


def windows_over(table: Table, ends: list[int], draw: Callable[[Any], Any]) -> list[tuple[list[Fact], Views]]:
    """Windows without a gap, and full views here and there; none cuts through the seconds of a write.

    A life is over a day long (the idempotency window) unless it is erased, and a window a day at most: with a cut into
    those that are erased, none hides a whole life.
    """
    first, last = ends[0], ends[-1]
    lives = {at - 2 * SECOND for at in table.accepted[1:]}
    erased = [at for at, key, item in table.writes if key == ("M#the-id", "M") and item is None]
    lives |= {at + 5 * SECOND for at in table.accepted[1:] if any(at < end < at + 24 * HOUR for end in erased)}
    times = sorted(at for at, _, _ in table.writes)
    lives |= {later - HOUR for earlier, later in pairwise(times) if later - earlier > 12 * HOUR}
    drawn = {at + 5 * SECOND for at, _, _ in table.writes if draw(st.booleans())}
    cuts = sorted({first, last, *lives, *drawn})
    parts = [table.changes(since, until) for since, until in pairwise(cuts)]
    return parts + [table.full(cut) for cut in cuts if draw(st.booleans())]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_views_in_any_order_and_doubled_tell_how_every_life_ended(data: st.DataObject) -> None:
    table, ends = data.draw(histories())
    parts = windows_over(table, ends, data.draw)
    expected = dict(table.lives)
    for nonce, status in expected.items():
        if status in ("in_flight", "scheduled"):
            expected[nonce] = "ready"  # two hours later nobody holds it any more
    in_order = merged(*parts)
    assert told(in_order) == expected
    doubled = parts + [part for part in parts if data.draw(st.booleans())]
    shuffled = data.draw(st.permutations(doubled))
    again = merged(*shuffled)
    assert told(again) == expected
    assert [(life.history, life.ended_at, life.body) for life in again.lives] == [
        (life.history, life.ended_at, life.body) for life in in_order.lives
    ]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_full_view_alone_tells_how_the_present_life_stands(data: st.DataObject) -> None:
    table, ends = data.draw(histories())
    found = told(merged(table.full(ends[-1])))
    if table.message is None:
        assert found == {}
    else:
        status = table.lives[table.message.nonce]
        assert found == {table.message.nonce: "ready" if status in ("in_flight", "scheduled") else status}


def simple() -> Table:
    table = Table()
    table.accept(AT, 1)
    return table


def test_a_message_without_its_entry_is_not_done_when_the_view_may_be_torn() -> None:
    table = simple()
    facts, views = table.full(AT + SKEW // 2)
    torn = [fact for fact in facts if fact.kind != "entry"]
    assert told(merged((torn, views))) == {"nonce-1": None}
    later = [fact for fact in table.full(AT + 2 * SKEW)[0] if fact.kind != "entry"]
    assert told(merged((later, Views((AT + 2 * SKEW,))))) == {"nonce-1": "done"}


def test_an_entry_between_two_places_is_not_done() -> None:
    table = simple()
    table.claim(AT + HOUR)
    table.retry(AT + HOUR + SECOND)
    at = AT + HOUR + 2 * SECOND
    facts, views = table.full(at)
    torn = [fact for fact in facts if fact.kind != "entry"]
    assert told(merged((torn, views))) == {"nonce-1": None}
    later = [fact for fact in table.full(at + HOUR)[0] if fact.kind != "entry"]
    assert told(merged((later, Views((at + HOUR,))))) == {"nonce-1": "done"}


def test_a_window_that_begins_between_entry_and_message_does_not_make_it_done() -> None:
    table = simple()
    late = table.changes(AT - 10 * MS, AT + HOUR)
    assert told(merged(late)) == {"nonce-1": None}
    assert told(merged(late, table.changes(AT - HOUR, AT - 10 * MS))) == {"nonce-1": "ready"}


def test_a_window_that_is_missing_leaves_what_was_last_seen() -> None:
    table = simple()
    first = table.changes(AT - HOUR, AT + HOUR)
    table.claim(AT + HOUR)
    table.done(AT + HOUR + SECOND, result=False)
    last = table.changes(AT + 2 * HOUR, AT + 3 * HOUR)
    assert told(merged(first, last)) == {"nonce-1": "ready"}
    missing = table.changes(AT + HOUR, AT + 2 * HOUR)
    assert told(merged(first, last, missing)) == {"nonce-1": "done"}


def test_what_is_gone_before_its_time_was_erased_and_stays_away() -> None:
    table = simple()
    seen = table.full(AT + HOUR)
    table.erase(AT + 2 * HOUR)
    for gone in (table.full(AT + 3 * HOUR), table.changes(AT + HOUR, AT + 3 * HOUR)):
        assert told(merged(seen, gone)) == {}
        assert told(merged(seen, gone, seen)) == {}, "merged again"
        assert told(merged(gone, seen)) == {}
    table.accept(AT + 4 * HOUR, 2)
    assert told(merged(seen, table.changes(AT + HOUR, AT + 5 * HOUR))) == {"nonce-2": "ready"}, "in one window"
    assert told(merged(seen, gone, table.full(AT + 5 * HOUR))) == {"nonce-2": "ready"}


def test_what_is_gone_after_its_time_stays() -> None:
    table = simple()
    table.claim(AT + HOUR)
    table.done(AT + HOUR + SECOND, result=True)
    seen = table.full(AT + 2 * HOUR)
    assert table.message
    over = table.message.ttl * 1_000_000 + HOUR
    table.expire(over)
    for gone in (table.full(over + HOUR), table.changes(over - HOUR, over + HOUR)):
        assert told(merged(seen, gone)) == told(merged(gone, seen)) == {"nonce-1": "done"}


def test_filtered_and_withdrawn_messages() -> None:
    samples = Samples("acme")
    for place, expected in ((FILTERED_PLACE, {"n": "filtered"}), (WITHDRAWN, {})):
        entry = samples.entry(id="the-id", nonce="n")
        message = samples.message(replace(entry, place=entry.place._replace(sk=place)))
        assert told(merged((_facts([(message_item(message), AT, False)]), Views((AT,))))) == expected


def test_a_body_is_read_once_and_remembered_and_a_lost_one_is_said_to_be() -> None:
    table, reads = simple(), []

    def read(message: Message) -> bytes:
        reads.append(message.id)
        return b"body"

    found = merged(table.full(AT + HOUR), table.full(AT + 2 * HOUR), read=read)
    assert (found.lives[0].body, reads) == (b"body", ["the-id"])
    assert "body" not in found.lives[0].message.headers

    def lose(message: Message) -> bytes:
        raise BodyLost("gone")

    lost = merged(table.full(AT + HOUR), table.full(AT + 2 * HOUR), read=lose).lives[0]
    assert (lost.body, lost.body_lost) == (None, True)


def test_times_runs_and_costs() -> None:
    table = simple()
    table.claim(AT + 10 * SECOND)
    table.retry(AT + 12 * SECOND)
    table.claim(AT + 80 * SECOND)
    table.done(AT + 81 * SECOND, result=True)
    (life,) = merged(table.full(AT + HOUR)).lives
    assert (life.started_at, life.ended_at) == (NOON + 10_000, NOON + 81_000)
    assert (life.status, life.runs, len(life.history)) == (MessageStatus.DONE, 2, 1)
    assert life.write_units == 1 + 1 + 6 + 3, "enqueue with its KB, a retry, claim, ack and result"


def test_a_large_message_costs_its_kilobytes_also_when_its_body_is_kept_elsewhere() -> None:
    table = simple()
    assert table.message
    table.put(AT, message_item(replace(table.message, body=Body(random.Random(1).randbytes(5_000), size=5_000))))
    parts = [table.full(AT + HOUR), table.full(AT + 2 * HOUR)]
    assert merged(parts[0]).lives[0].write_units == merged(*parts).lives[0].write_units == 7


@pytest.mark.parametrize(
    ("windows", "joined"),
    [
        ([(0, 5), (5, 9)], [(0, 9)]),
        ([(5, 9), (0, 6)], [(0, 9)]),
        ([(0, 5), (6, 9)], [(0, 5), (6, 9)]),
        ([(0, 9), (2, 3)], [(0, 9)]),
    ],
)
def test_windows_that_touch_are_one_stretch(windows: list[tuple[int, int]], joined: list[tuple[int, int]]) -> None:
    assert Views((), tuple(windows)).stretches() == joined


def test_of_an_erased_message_nothing_is_told_but_that_it_was_there() -> None:
    """Also where an earlier run has kept its facts and its body."""
    samples = Samples("acme")
    entry = samples.entry()
    message = samples.message(entry)
    dead = samples.dead_letter(message)
    before = [message_item(message), entry_item(entry), dead_letter_item(dead), location_item(samples.buried(dead))]
    trace = MessageLocation(message.id, message.nonce, None, 9, dead_letter=dead.sk, purged_at=NOON + 5)
    after = [message_item(message.husk(samples.pk)), location_item(trace)]
    seen = [fact for item in before if (fact := fact_of_item(item, AT)) is not None]
    gone = [fact for item in before[1:3] if (fact := fact_of_item(item, AT + SECOND, gone=True)) is not None]
    left = [fact for item in after if (fact := fact_of_item(item, AT + SECOND)) is not None]
    kept = [Kept(written_facts(seen), b"what was sent")]
    (life,) = lives_of(message.id, [*gone, *left], Views(), kept=kept, read=lambda _: b"what was sent").lives
    assert (life.status, life.ended_at) == (MessageStatus.PURGED, NOON + 5)
    assert (life.body, life.dead_letter, life.entry, life.history) == (None, None, None, ())
    told = written_facts(life.facts)
    for secret in ("customer/7", "billing", "x-event", "said no", message.idempotency_key):
        assert secret not in told
