"""Whether another dictionary would serve a queue better: asked by the sweep, once a week and never in between.

For a review the ids of some hundred messages are gathered, a few with each sweep; then they are read, a dictionary is
made of one half and tried on the other. It must save a tenth of the write units, or things stay as they are.

Nothing can be lost by it. A dictionary is kept before its queue names it; a sender packs with one only before its
`until`, and whatever was packed by then is gone before the dictionary is. Of two sweeps that review at the same time,
one's dictionary is named; the other's was never packed with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from millrace.engine.queue import Queue
from millrace.engine.training import make_content
from millrace.model.body import PACK_FROM, pack
from millrace.model.clock import DAY, MINUTE
from millrace.model.dictionary import USE_MS, Dictionary
from millrace.model.errors import BodyLost, DictionaryLost
from millrace.model.keys import END, READY
from millrace.model.queue_state import RECENT_DONE, QueueState
from millrace.model.strict_json import parse

REVIEW_MS = 7 * DAY
#: Messages that a review looks at, and how many of them must be JSON worth packing.
SAMPLE, ENOUGH = 300, 100
#: Larger bodies are left out; all together are at most so large.
LARGEST_BODY, LARGEST_SAMPLE = 64 * 1024, 3 * 1024 * 1024
#: Partitions and entries of each that one sweep looks at for messages that are still queued.
PARTITIONS, ENTRIES = 4, 100
#: A queue that stood still for longer gathers nothing new.
MOVED_MS = 10 * MINUTE
#: What a message's item holds beside its body, more or less.
BESIDE_BODY = 450
#: A dictionary must leave no more than this of the write units.
MUST_LEAVE = 0.9


@dataclass(frozen=True, slots=True)
class Review:
    """What a review found: write units a message by its body, and the dictionary from now on."""

    plain: float
    before: float
    after: float
    dictionary: str  #: empty where none is worth its while


def is_due(state: QueueState, now: int) -> bool:
    """Whether the queue moves, has had messages enough, and was not reviewed for a week."""
    moves = state.depth > 0 or now - state.moved_at < MOVED_MS
    return moves and state.arrived >= SAMPLE and now - state.reviewed_at >= REVIEW_MS


def review_dictionary(queue: Queue, state: QueueState) -> Review | None:
    """Gather for a review that is due, and make it when there is enough; None while there is not.

    Costs, in a week: at most 300 write units for the sample and 40 for a dictionary, and for the messages that are read
    two read units for each of their KB. Raises StoreUnavailable; then the next sweep goes on.
    """
    now = queue.now()
    if not queue.spec.shares_dictionary or not is_due(state, now):
        return None
    ids = _gather(queue, state, now)
    if len(ids) < SAMPLE:
        return None
    bodies = list(_bodies(queue, ids))
    review, dictionary = _judge(bodies, _current(queue, state))
    named = publish(queue, state, dictionary)
    queue.store.put_body_sample(queue.tenant, queue.spec.name, (), now)
    return review if named else None


def publish(queue: Queue, seen: QueueState, dictionary: Dictionary | None) -> bool:
    """Pack with this dictionary (or none) from now on, unless the queue was reviewed since; whether that is so.

    It is kept before it is named: whoever hears of it can have it.
    """
    now = queue.now()
    if dictionary is not None:
        queue.store.put_dictionary(queue.tenant, queue.spec.name, dictionary.stored(now + USE_MS))
    return queue.store.set_dictionary(seen, dictionary.name if dictionary else "", now)


def _gather(queue: Queue, state: QueueState, now: int) -> tuple[str, ...]:
    """The ids that are known by now. They are written down only with as many new ones as a sweep can hope for."""
    known = queue.store.get_body_sample(queue.tenant, queue.spec.name)
    found = dict.fromkeys([*known, *state.recent_done])
    if state.depth > 0:
        found.update(dict.fromkeys(_queued(queue)))
    ids = tuple(found)[:SAMPLE]
    if SAMPLE > len(ids) >= len(known) + RECENT_DONE:
        queue.store.put_body_sample(queue.tenant, queue.spec.name, ids, now)
    return ids


def _queued(queue: Queue) -> Iterator[str]:
    partitions = queue.partitions()
    first = int(queue.runtime.chance() * len(partitions))
    for pk in (partitions[first:] + partitions[:first])[:PARTITIONS]:
        for entry in queue.store.read_lane(pk, READY, READY + END, ENTRIES).items:
            yield entry.id


def _bodies(queue: Queue, ids: Sequence[str]) -> Iterator[bytes]:
    """Those that are JSON, lie in the table and are worth packing, in the order of their ids."""
    room = LARGEST_SAMPLE
    for _, message in sorted(queue.store.get_messages(ids).items()):
        size = message.body.size
        if message.body.blob or not PACK_FROM <= size <= min(LARGEST_BODY, room):
            continue
        try:
            data = queue.runtime.bodies.read(message)
            parse(data)
        except (BodyLost, ValueError):
            continue
        room -= size
        yield data


def _current(queue: Queue, state: QueueState) -> Dictionary | None:
    if not state.dictionary:
        return None
    try:
        return queue.runtime.dictionaries.to_unpack(queue.tenant, queue.spec.name, state.dictionary)
    except DictionaryLost:
        return None


def _judge(bodies: list[bytes], current: Dictionary | None) -> tuple[Review, Dictionary | None]:
    """What is best from now on: a new dictionary, the one that there is, or none."""
    trial = _made(bodies[::2]) if len(bodies) >= ENOUGH else None
    tried = bodies[1::2]
    plain = _units(tried, None)
    before = _units(tried, current)
    after = _units(tried, trial)
    if trial is not None and after <= MUST_LEAVE * min(plain, before):
        new = _made(bodies) or trial
        return Review(plain, before, after, new.name), new
    if current is not None and (before <= MUST_LEAVE * plain or not tried):
        return Review(plain, before, before, current.name), current
    return Review(plain, before, plain, ""), None


def _made(bodies: Sequence[bytes]) -> Dictionary | None:
    content = make_content(bodies)
    return Dictionary(content) if content else None


def _units(bodies: Sequence[bytes], dictionary: Dictionary | None) -> float:
    """Write units of a message with such a body, on average."""
    units = [-(-(BESIDE_BODY + len(pack(body, dictionary).data)) // 1024) for body in bodies]
    return sum(units) / len(units) if units else 0.0
