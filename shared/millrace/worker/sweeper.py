"""The sweep over every queue, once a minute: fair, in time, and on its own feet whatever one queue does.

Queues take their turn in the order of their names. A round that does not come to its end in time notes how far it
came, and the next one goes on behind that; so every queue has its turn, however many there are. While rounds come to
their end nothing is noted, and idle costs one query a minute.

A worker is started for each queue as the sweep comes to it. A queue whose counter says 0 is looked at once in ten
minutes all the same: a counter is repaired from reads that may have missed an entry on its way between two lanes.
Found empty and unused for a day it leaves the list, until somebody puts a message into it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from millrace.engine.sweep import is_empty, retire, sweep
from millrace.model.clock import MINUTE
from millrace.model.errors import StoreUnavailable
from millrace.model.keys import spread
from millrace.model.queue_state import QueueState
from millrace.worker.context import log
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.time_left import TimeLeft

T = TypeVar("T")

#: Queues swept at the same time.
SWEEPERS = 8
#: A sweep ends within so long, before the next one begins.
SWEEP_MS = 40_000
#: With less time left than this no further queue is swept; the next minute goes on.
SWEEP_RESERVE_MS = 15_000
#: A queue whose counter says 0 is looked at once in so many minutes.
LOOK_EVERY = 10


def sweep_all(drainer: QueueDrainer, states: Sequence[QueueState], time_left: TimeLeft) -> list[WakeRequest]:
    """Sweep queues while there is time and start workers for them; returns those for which none could be started."""
    defined = [state for state in states if state.queue in drainer.definitions.queues]
    found = in_turn(drainer, "sweep", defined, lambda state: _sweep(drainer, state), SWEEP_MS, time_left)
    return [request for request in found if request is not None]


def in_turn(
    drainer: QueueDrainer,
    name: str,
    states: Sequence[QueueState],
    work: Callable[[QueueState], T],
    box_ms: int,
    time_left: TimeLeft,
) -> list[T]:
    """Do something for every queue, beginning where the last round of this name stopped, for at most `box_ms`.

    Costs one read; one write where the round does not come to its end, or is the first to do so again.
    """
    if not states:
        return []
    clock = drainer.runtime.clock
    end = clock() + box_ms
    began = _position(drainer, name)

    def in_time() -> bool:
        left = time_left.left_ms()
        return not time_left.stopped and clock() < end and (left is None or left >= SWEEP_RESERVE_MS)

    ordered = sorted(states, key=_name)
    first = bisect_right([_name(state) for state in ordered], began)
    turns = ordered[first:] + ordered[:first]
    with ThreadPoolExecutor(SWEEPERS, thread_name_prefix=name) as pool:
        done = list(pool.map(lambda state: (work(state),) if in_time() else None, turns))
    reached = done.index(None) if None in done else len(done)
    stopped_at = "" if reached == len(turns) else _name(turns[reached - 1]) if reached else began
    if stopped_at != began:
        _note(drainer, name, stopped_at)
    return [found[0] for found in done if found is not None]


def _name(state: QueueState) -> str:
    return f"{state.tenant}#{state.queue}"


def _position(drainer: QueueDrainer, name: str) -> str:
    try:
        return drainer.runtime.store.get_sweep_position(name)
    except StoreUnavailable:
        return ""


def _note(drainer: QueueDrainer, name: str, position: str) -> None:
    try:
        drainer.runtime.store.set_sweep_position(name, position)
    except StoreUnavailable as error:
        fields = {"action": "sweep_position_lost", "error": str(error)}
        log.warning("How far a sweep came could not be noted; the next one begins where this one did.", extra=fields)


def _sweep(drainer: QueueDrainer, state: QueueState) -> WakeRequest | None:
    """Sweep one queue that holds anything; returns a request where a worker is wanted and could not be started."""
    unserved: WakeRequest | None = None
    try:
        if not _is_wanted(drainer, state):
            return None
        wake_request = WakeRequest(state.tenant, state.queue)
        workable = drainer.works_on(state.queue) and not state.paused_at
        if workable and not drainer.ensure_worker(wake_request):
            unserved = wake_request
        sweep(drainer.queue(state.tenant, state.queue))
    except Exception as error:  # noqa: BLE001 (whatever is wrong with one queue, the others have their turn)
        fields = {"action": "sweep_failed", "queue": state.queue, "tenant": state.tenant, "error": repr(error)}
        log.warning("A queue could not be swept; the next minute tries again.", extra=fields)
    return unserved


def _is_wanted(drainer: QueueDrainer, state: QueueState) -> bool:
    """Whether the queue holds anything, by its counter or, now and then, by looking."""
    if state.depth > 0:
        return True
    window, minute = divmod(drainer.runtime.clock() // MINUTE, LOOK_EVERY)
    # Another minute in each window: rounds that take several minutes leave none out for ever.
    has_turn = spread(f"{_name(state)}#{window}") % LOOK_EVERY == minute
    if not has_turn:
        return False
    queue = drainer.queue(state.tenant, state.queue)
    if not is_empty(queue):
        return True
    retire(queue, state)
    return False
