"""The history of queues: what the sweep keeps of their numbers, five minutes apart.

One write for a queue in five minutes, and only while it holds anything or moved within the last ten: at most 288 write
units a day, about one cent a month for each busy queue; an idle queue costs nothing. Samples go after 15 days.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from millrace.engine.inspect import Stats, stats
from millrace.model.clock import MINUTE
from millrace.model.errors import MillraceError
from millrace.model.keys import spread
from millrace.model.queue_samples import SAMPLE_MS, first_sample, sample_of
from millrace.model.queue_state import QueueState
from millrace.worker.context import log
from millrace.worker.drainer import QueueDrainer
from millrace.worker.sweeper import in_turn
from millrace.worker.time_left import TimeLeft

#: Samples are written for at most so long in a minute.
SAMPLES_MS = 5_000
#: A queue that moved so long ago at most gets a sample also when it is empty: its last one says that it is.
MOVED_MS = 2 * SAMPLE_MS


def keep_samples(
    drainer: QueueDrainer,
    states: Sequence[QueueState],
    time_left: TimeLeft,
    measured: Mapping[tuple[str, str], Stats] | None = None,
) -> None:
    """Write a sample of each queue whose turn it is. What was measured already is not measured again."""
    now = drainer.runtime.clock()
    found = measured or {}
    due = [state for state in states if state.queue in drainer.definitions.queues and is_due(state, now)]
    in_turn(
        drainer,
        "samples",
        due,
        lambda state: _keep(drainer, state, found.get((state.tenant, state.queue))),
        SAMPLES_MS,
        time_left,
    )


def is_due(state: QueueState, now: int) -> bool:
    """Whether it is the queue's minute, and there is anything to say."""
    window, minute = divmod(now // MINUTE, SAMPLE_MS // MINUTE)
    # Another minute in each window: rounds that take several minutes leave none out for ever.
    has_turn = spread(f"{state.tenant}#{state.queue}#{window}") % (SAMPLE_MS // MINUTE) == minute
    moved_at = max(state.moved_at, state.repaired_at)
    return has_turn and (state.depth > 0 or now - moved_at < MOVED_MS)


def _keep(drainer: QueueDrainer, state: QueueState, found: Stats | None) -> None:
    try:
        queue = drainer.queue(state.tenant, state.queue)
        if found is None and state.depth > 0:
            found = stats(queue)
        state = queue.state(fresh=True)
        now, depth, age = queue.now(), found.depth if found else None, found.oldest_age_ms if found else 0
        if (before := first_sample(state, now)) is not None:
            queue.store.put_sample(state.tenant, state.queue, before)
        queue.store.put_sample(state.tenant, state.queue, sample_of(state, now, depth=depth, oldest_age_ms=age))
    except MillraceError as error:
        fields = {"action": "sample_lost", "queue": state.queue, "tenant": state.tenant, "error": str(error)}
        log.warning("A sample of a queue could not be kept; its history has a gap of five minutes.", extra=fields)
