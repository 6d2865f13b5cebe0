"""The dictionaries of queues, behind the sweep: reviewed in turn, for a few seconds in a minute at most."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.engine.dictionary_review import is_due, review_dictionary
from millrace.model.errors import MillraceError
from millrace.model.queue_state import QueueState
from millrace.worker.context import log
from millrace.worker.drainer import QueueDrainer
from millrace.worker.sweeper import in_turn
from millrace.worker.time_left import TimeLeft

#: No review begins later than this in a minute; one takes a second or two at most.
REVIEWS_MS = 5_000


def review_dictionaries(drainer: QueueDrainer, states: Sequence[QueueState], time_left: TimeLeft) -> None:
    """Gather and review for each queue whose time it is. Costs nothing while no queue's is."""
    now = drainer.runtime.clock()
    due = [state for state in states if state.queue in drainer.definitions.queues and is_due(state, now)]
    in_turn(drainer, "dictionaries", due, lambda state: _review(drainer, state), REVIEWS_MS, time_left)


def _review(drainer: QueueDrainer, state: QueueState) -> None:
    fields: dict[str, object] = {"queue": state.queue, "tenant": state.tenant}
    try:
        review = review_dictionary(drainer.queue(state.tenant, state.queue), state)
    except MillraceError as error:
        fields |= {"action": "dictionary_review_failed", "error": str(error)}
        log.warning("A queue's dictionary could not be reviewed; the next minute tries again.", extra=fields)
        return
    if review is not None:
        fields |= {
            "action": "dictionary_reviewed",
            "dictionary": review.dictionary,
            "units_plain": round(review.plain, 2),
            "units_before": round(review.before, 2),
            "units_after": round(review.after, 2),
        }
        log.info("A queue's dictionary was reviewed.", extra=fields)
