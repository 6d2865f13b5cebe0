"""Wake-ups of the worker: the table's stream, the schedule, or a call for one queue; read, and handled.

{"Records": [{"eventSource": "aws:dynamodb", …}]}     entries appeared: start workers for their queues
{"source": "aws.events", …} or {"sweep": true}        every minute: sweep every queue, and drain those with work
{"tenant": "t", "queue": "Q", "slot": 0}              one queue

An invocation by the stream only starts workers and returns: a drain would hold its lane of the stream, and with it the
wake-ups of other queues. Where no worker can be started (one process, or Lambda refuses) it drains itself.

A wake-up is only a hint. What fails here is logged and left to the next minute's sweep: raising would make Lambda
repeat the same stream records and hold up those behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from millrace.engine.sweep import sweep
from millrace.model.errors import InvalidField, MillraceError, StoreUnavailable
from millrace.model.keys import READY, WAITING, owner_of
from millrace.model.queue_state import QueueState
from millrace.worker.context import log
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.slots import has_free_slot
from millrace.worker.time_left import TimeLeft
from millrace.worker.worker import DrainResult

#: Workers started at the same time.
STARTERS = 8
#: Queues swept at the same time.
SWEEPERS = 4
#: With less time left than this no further queue is swept; the next minute goes on.
SWEEP_RESERVE_MS = 15_000


@dataclass(frozen=True, slots=True)
class Wakeup:
    """What a worker was woken for: some queues, or a sweep over all of them."""

    requests: tuple[WakeRequest, ...] = ()
    sweep: bool = False
    stream: bool = False  #: from the table's stream, whose lane waits for the answer


def read_event(event: Mapping[str, Any]) -> Wakeup:
    """What an event asks for. Raises InvalidField for an unknown one."""
    if "Records" in event:
        return Wakeup(_requests(event["Records"]), stream=True)
    if event.get("sweep") is True or event.get("source") in ("aws.events", "aws.scheduler"):
        return Wakeup(sweep=True)
    if isinstance(event.get("tenant"), str) and isinstance(event.get("queue"), str):
        slot = event.get("slot", 0)
        number = slot if isinstance(slot, int) and slot >= 0 else 0
        return Wakeup((WakeRequest(event["tenant"], event["queue"], number, fanned=event.get("fanned") is True),))
    raise InvalidField("event", "asks for nothing known", "stream records, a schedule, or a tenant and queue")


def _requests(records: list[Mapping[str, Any]]) -> tuple[WakeRequest, ...]:
    """The queues of entries that appeared; many records of one queue are one drain."""
    found: dict[tuple[str, str], WakeRequest] = {}
    for record in records:
        keys = record.get("dynamodb", {}).get("Keys", {})
        pk, sk = keys.get("pk", {}).get("S", ""), keys.get("sk", {}).get("S", "")
        is_entry = pk.startswith("Q#") and pk.count("#") == 3 and sk.startswith((READY, WAITING))
        if record.get("eventName") == "INSERT" and is_entry:
            tenant, queue = owner_of(pk)
            found.setdefault((tenant, queue), WakeRequest(tenant, queue))
    return tuple(found.values())


def wake_event(wake_request: WakeRequest) -> dict[str, Any]:
    """The event that calls a worker for one queue: the inverse of `read_event`."""
    return {
        "tenant": wake_request.tenant,
        "queue": wake_request.queue,
        "slot": wake_request.slot,
        "fanned": wake_request.fanned,
    }


def handle_wakeup(drainer: QueueDrainer, wakeup: Wakeup, time_left: TimeLeft) -> list[DrainResult]:
    """Do what a wake-up asks for: start workers where that is possible, and drain the rest here."""
    if wakeup.sweep:
        requests = _without_started(drainer, _sweep_all(drainer, time_left))
    else:
        requests = [request for request in wakeup.requests if drainer.works_on(request.queue)]
    if wakeup.stream:
        requests = _without_started(drainer, requests)
    results = [_drain(drainer, wake_request, time_left) for wake_request in requests]
    return [result for result in results if result is not None]


def _without_started(drainer: QueueDrainer, requests: list[WakeRequest]) -> list[WakeRequest]:
    """Start a worker for each queue with a free slot; returns those for which none could be started.

    A queue whose slots are all held needs none: whoever frees one polls once more.
    """
    if drainer.invoke_worker is None or not requests:
        return requests
    with ThreadPoolExecutor(STARTERS, thread_name_prefix="start") as pool:
        served = list(pool.map(lambda request: _is_served(drainer, request), requests))
    return [request for request, is_served in zip(requests, served, strict=True) if not is_served]


def _is_served(drainer: QueueDrainer, wake_request: WakeRequest) -> bool:
    try:
        queue = drainer.queue(wake_request.tenant, wake_request.queue)
        if not has_free_slot(queue, drainer.settings.concurrency):
            return True
    except StoreUnavailable:
        pass  # the worker finds out
    return drainer.start_worker(wake_request)


def _drain(drainer: QueueDrainer, wake_request: WakeRequest, time_left: TimeLeft) -> DrainResult | None:
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


def _sweep_all(drainer: QueueDrainer, time_left: TimeLeft) -> list[WakeRequest]:
    """Sweep every queue that holds anything; returns those with work that may be due. Idle costs one query."""
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
