"""Deliberate breakages that the state machine has to notice: some of the explorer's, and those of single verbs.

Four of them are mistakes that it found in the engine itself; they stand here as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import millrace.engine.claim
import millrace.engine.enqueue
import millrace.engine.finish
import millrace.engine.operate
import millrace.engine.poll
import millrace.engine.queue
import millrace.engine.sweep
import millrace.engine.workflow_state
from millrace.engine.finish import RetryAt, decide
from millrace.model.keys import END, READY, WAITING, order_of, waiting_place
from millrace.model.message import Entry, WorkflowState
from millrace.model.queue_spec import Ordering
from millrace.model.queue_state import QueueState
from millrace.stores.memory.queue import MemoryStore
from tests.proofs.exploration import mutants as explored

Patch = Callable[[pytest.MonkeyPatch], None]


def _held_retries_hide_others(patch: pytest.MonkeyPatch) -> None:
    """As it was: of what is due, only as many entries were looked at as were wanted, held ones included."""
    from_lane = millrace.engine.poll._from_lane

    def one_page(queue: Any, pk: str, after: str, upto: str, wanted: int, now: int, only: Any, found: Any) -> Any:
        if not after.startswith(WAITING):
            return from_lane(queue, pk, after, upto, wanted, now, only, found)
        page = queue.store.read_lane(pk, after, upto, wanted)
        return millrace.engine.poll._claimable(queue, page.items, now, only, found)

    patch.setattr(millrace.engine.poll, "_from_lane", one_page)


def _held_keys_hide_what_lies_behind(patch: pytest.MonkeyPatch) -> None:
    """As it was: of a key whose first entries are held, a fair queue saw no more."""
    from_lane = millrace.engine.poll._from_lane

    def nothing_behind(queue: Any, pk: str, after: str, upto: str, *rest: Any) -> Any:
        behind = upto == after + END and after != READY
        return [] if behind else from_lane(queue, pk, after, upto, *rest)

    patch.setattr(millrace.engine.poll, "_from_lane", nothing_behind)


def _waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    """As it was: a message could be put off beyond its retention."""
    move = millrace.engine.finish.move

    def uncapped(queue: Any, entry: Entry, changed: Entry, due: int, history: Any) -> int:
        return move(queue, replace(entry, expires_at=2**53), changed, due, history)

    patch.setattr(millrace.engine.finish, "move", uncapped)


def _document_of_another_life(patch: pytest.MonkeyPatch) -> None:
    """As it was: a message sent again after its window found its predecessor's document."""
    patch.setattr(
        millrace.engine.workflow_state,
        "own_workflow_state",
        lambda records, _nonce: records.workflow_state or WorkflowState(b"", 0),
    )


def _release_charges(patch: pytest.MonkeyPatch) -> None:
    hold = MemoryStore.hold_entries

    def charging(self: MemoryStore, entries: Any, tokens: Any) -> Any:
        outcomes = hold(self, entries, tokens)
        for entry, outcome in zip(entries, outcomes, strict=True):
            if entry.token == "" and not hasattr(outcome, "current"):
                self.entries[entry.place] = replace(self.entries[entry.place], attempts=entry.attempts + 1)
        return outcomes

    patch.setattr(MemoryStore, "hold_entries", charging)


def _delays_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(millrace.engine.poll, "due_now", lambda _now: WAITING + END)
    claimable = millrace.engine.poll._claimable

    def early(queue: Any, entries: Any, now: int, only: Any, found: Any) -> Any:
        due = {entry.place: entry for entry in entries}
        seen = claimable(queue, [replace(entry, due=0) for entry in entries], now, only, found)
        return [due[entry.place] for entry in seen]

    patch.setattr(millrace.engine.poll, "_claimable", early)


def _priorities_turned_around(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(millrace.engine.poll, "_rank", lambda entry: (entry.priority, order_of(entry.place)))


def _newest_first(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(millrace.engine.poll, "_rank", lambda entry: (-entry.priority, -int(order_of(entry.place)[:16], 16)))


def _ordered_retries_step_aside(patch: pytest.MonkeyPatch) -> None:
    """A failed message of a fifo queue goes to the waiting lane, so that the next one may start."""
    patch.setattr(Ordering, "ordered", property(lambda self: False))


def _second_of_a_key(patch: pytest.MonkeyPatch) -> None:
    def any_of_a_key(queue: Any, pk: str, wanted: int, now: int, only: Any, found: Any) -> None:
        page = queue.store.read_lane(pk, READY, millrace.engine.poll.READY_END, 50)
        found.entries = millrace.engine.poll._claimable(queue, page.items, now, only, found)[:wanted]

    patch.setattr(millrace.engine.poll, "_heads_of_keys", any_of_a_key)


def _no_turns(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(millrace.engine.poll, "_take_turns", lambda ranked: ranked)


def _windows_never_end(patch: pytest.MonkeyPatch) -> None:
    answer = millrace.engine.enqueue._answer_repeat

    def for_ever(queue: Any, pair: Any, current: Any) -> Any:
        return answer(queue, pair, replace(current, dedupe_until=2**60))

    patch.setattr(millrace.engine.enqueue, "_answer_repeat", for_ever)


def _pause_ignored(patch: pytest.MonkeyPatch) -> None:
    asked = millrace.engine.claim._Asked

    def never_paused(*given: Any, **rest: Any) -> Any:
        return asked(*given, **{**rest, "paused": False})

    patch.setattr(millrace.engine.claim, "_Asked", never_paused)


def _pause_held_for_too_long(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(millrace.engine.queue, "CACHED_STATE_MS", 10**9)


def _purge_takes_what_is_held(patch: pytest.MonkeyPatch) -> None:
    remove = millrace.engine.operate._remove

    def all_of_it(queue: Any, free: Any, now: int, *, held: bool = False) -> int:
        live = [entry for entry in queue.store.entries.values() if entry.live(now)]
        found = [*free, *((entry, queue.store.get_records(entry.id)) for entry in live)]
        return remove(queue, found, now, held=True)

    patch.setattr(millrace.engine.operate, "_remove", all_of_it)


def _sweep_forgets_the_aged(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(millrace.engine.claim, "clear_doomed", lambda _queue, _owner: 0)
    patch.setattr(millrace.engine.sweep, "clear_doomed", lambda _queue, _owner: 0)


def _attempts_never_used_up(patch: pytest.MonkeyPatch) -> None:

    def forgiving(delivery: Any, attempts: int, now: int, chance: Any, delay_ms: int | None = None) -> Any:
        decision = decide(delivery, attempts, now, chance, delay_ms)
        return decision if isinstance(decision, RetryAt) else RetryAt(now + 1_000)

    patch.setattr(millrace.engine.finish, "decide", forgiving)


def _mending_takes_too_much(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(QueueState, "spendable_grants", lambda _self, _now: -1)


def _retry_in_the_same_place(patch: pytest.MonkeyPatch) -> None:
    """Moving an entry loses its place in line: the order is made anew."""
    patch.setattr(
        millrace.engine.finish, "waiting_place", lambda pk, due, order: waiting_place(pk, due, "f" * len(order))
    )


OWN: dict[str, Patch] = {
    "held retries hide others (found by the machine)": _held_retries_hide_others,
    "held keys hide what lies behind (found by the machine)": _held_keys_hide_what_lies_behind,
    "waits for ever (found by the machine)": _waits_for_ever,
    "document of another life (found by the machine)": _document_of_another_life,
    "release charges an attempt": _release_charges,
    "delays ignored": _delays_ignored,
    "priorities turned around": _priorities_turned_around,
    "newest first": _newest_first,
    "ordered retries step aside": _ordered_retries_step_aside,
    "second of a key": _second_of_a_key,
    "no turns in a fair queue": _no_turns,
    "windows never end": _windows_never_end,
    "pause ignored": _pause_ignored,
    "pause seen too late": _pause_held_for_too_long,
    "purge takes what is held": _purge_takes_what_is_held,
    "sweep forgets the aged": _sweep_forgets_the_aged,
    "attempts never used up": _attempts_never_used_up,
    "mending takes too much": _mending_takes_too_much,
    "retries lose their place": _retry_in_the_same_place,
}
#: Breakages of the explorer's that need no race to show.
SHARED = (
    "ack without token",
    "claim over a live lease",
    "replaced while queued",
    "retry copies the entry",
    "credits given twice",
    "credits over the limit",
    "lost runs are free",
    "what is to be buried hides the rest",
)
MUTANTS: dict[str, Patch] = {**OWN, **{name: explored.MUTANTS[name].patch for name in SHARED}}
