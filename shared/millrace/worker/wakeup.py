"""Attend to a wake-up: drain the queues that it names, or look after all of them.

A wake-up is only a hint. What fails here is logged and left to the next minute's sweep: raising would make Lambda
repeat the same stream records and hold up those behind them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from millrace.engine.sweep import sweep
from millrace.model.errors import MillraceError
from millrace.model.queue_state import QueueState
from millrace.worker.context import log
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.events import Wake
from millrace.worker.time_left import TimeLeft
from millrace.worker.worker import Drained

#: Queues swept at the same time.
SWEEPERS = 4
#: With less time left than this no further queue is swept; the next minute goes on.
SWEEP_RESERVE_MS = 15_000


def handle_wakeup(drainer: QueueDrainer, wake: Wake, time_left: TimeLeft) -> list[Drained]:
    """Do what a wake-up asks for: the first queue here, every other by a worker of its own."""
    queues = _swept(drainer, time_left) if wake.sweep else [s for s in wake.queues if drainer.works_on(s.queue)]
    if not queues:
        return []
    here, others = queues[0], queues[1:]
    if drainer.invoke_worker is not None:
        for wake_request in others:
            drainer.invoke_worker(wake_request)
        others = []
    drained = [_drain(drainer, wake_request, time_left) for wake_request in (here, *others)]
    return [found for found in drained if found is not None]


def _drain(drainer: QueueDrainer, wake_request: WakeRequest, time_left: TimeLeft) -> Drained | None:
    try:
        return drainer.drain(wake_request, time_left)
    except MillraceError as error:
        fields = {
            "action": "drain_failed",
            "queue": wake_request.queue,
            "tenant": wake_request.tenant,
            "error": str(error),
        }
        log.exception("A queue could not be drained; the next sweep tries again.", extra=fields)
        return None


def _swept(drainer: QueueDrainer, time_left: TimeLeft) -> list[WakeRequest]:
    """Sweep every queue that holds anything; those with work that may be due. An empty deployment costs one query."""
    states = [state for state in drainer.runtime.store.list_all_queue_states() if _needs_sweep(drainer, state)]
    with ThreadPoolExecutor(SWEEPERS, thread_name_prefix="sweep") as pool:
        list(pool.map(lambda state: _sweep(drainer, state, time_left), states))
    return [
        WakeRequest(state.tenant, state.queue)
        for state in states
        if drainer.works_on(state.queue) and not state.paused_at and state.depth
    ]


def _needs_sweep(drainer: QueueDrainer, state: QueueState) -> bool:
    """A depth is never too low, so zero means empty. A queue that is no longer defined cannot be swept."""
    return state.depth > 0 and state.queue in drainer.definitions.queues


def _sweep(drainer: QueueDrainer, state: QueueState, time_left: TimeLeft) -> None:
    left = time_left.left_ms()
    if time_left.stopped or (left is not None and left < SWEEP_RESERVE_MS):
        return
    try:
        sweep(drainer.queue(state.tenant, state.queue))
    except MillraceError as error:
        fields = {"action": "sweep_failed", "queue": state.queue, "tenant": state.tenant, "error": str(error)}
        log.warning("A queue could not be swept; the next minute tries again.", extra=fields)
