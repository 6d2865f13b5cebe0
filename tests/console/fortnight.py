"""Two weeks of one queue in a minute: a thousand messages, two outages, and what the sweep keeps of them.

The stack's clock is moved through the past in steps of five minutes, so that everything on the pages is made by the
queue itself: samples by the sweep, dead letters by runs that failed.
"""

from __future__ import annotations

import math
import random
from unittest.mock import patch

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, ack, nack, reject
from millrace.engine.queue import Queue
from millrace.model.message import Draft
from millrace.model.queue_samples import SAMPLE_MS
from millrace.worker import TimeLeft, samples
from millrace.worker.drainer import QueueDrainer
from tests.console.stack import DEFINITIONS, Stack

STEPS = 14 * 24 * 12
#: Steps ago, from and to: nothing is worked off meanwhile.
OUTAGES = ((1_260, 1_170), (20, 12))


def live_through(stack: Stack, name: str = "GitHubEvents", messages: int = 1_000) -> None:
    """So many messages in two weeks, more by day than by night and many in the last hours; some of them fail."""
    drainer = QueueDrainer(stack.service.runtime, DEFINITIONS, {})
    queue, chance, left = stack.queue(name), random.Random(11), messages
    for step in range(STEPS, 0, -1):
        stack.clock.by = -step * SAMPLE_MS
        down = any(first >= step > last for first, last in OUTAGES)
        came = min(left, _arrivals(step, chance))
        left -= came
        for number in range(came):
            enqueue(queue, Draft(b'{"action":"opened"}', correlation_id=f"req-{step}-{number}", source="github"))
        if not down and queue.state(fresh=True).depth > 0:
            _work(queue, chance)
        stack.service.runtime.credits.give_back()
        state = queue.state(fresh=True)
        if came or state.depth > 0 or queue.now() - state.moved_at < 2 * SAMPLE_MS:
            with patch.object(samples, "is_due", return_value=True):
                samples.keep_samples(drainer, [state], TimeLeft())
    stack.clock.by = 0


def _arrivals(step: int, chance: random.Random) -> int:
    """Busy days and calm nights; a little more in the last two hours."""
    if step <= 24:
        return chance.randint(2, 6)
    by_day = 0.5 + 0.5 * math.sin(step / 288 * 2 * math.pi)
    return int(chance.random() < 0.15 * by_day**2) * chance.randint(1, 7)


def _work(queue: Queue, chance: random.Random) -> None:
    for held in claim(queue, owner=f"worker-{chance.randint(1, 3)}", limit=14).claims:
        luck, number = chance.random(), chance.randint(1_000, 9_999)
        if luck < 0.72:
            ack(queue, [held.entry], [b'{"ok":true}'])
        elif luck < 0.82:
            reject(queue, held.entry, held.message, RunFailure("UnknownCustomer", f"cus_{number} is not in the ledger"))
        elif luck < 0.87:
            text = f"order {number}: expected 'EUR', found 'XXX'"
            reject(queue, held.entry, held.message, RunFailure("ValidationError", text))
        else:
            text = f"answered 503 after {number} ms"
            nack(queue, held.entry, held.message, RunFailure("HttpStatus", text), delay_ms=240_000, lost=held.lost)
