"""Wake-ups of the worker: the table's stream, the schedule, or a call for one queue; read, and handled.

{"Records": [{"eventSource": "aws:dynamodb", …}]}     entries appeared: start workers for their queues
{"source": "aws.events", …} or {"sweep": true}        every minute: sweep every queue, and start workers
{"tenant": "t", "queue": "Q", "slot": 0}              one queue

An invocation by the stream only starts workers and returns: a drain would hold its lane of the stream, and with it the
wake-ups of other queues. Where no worker can be started (one process, or Lambda refuses) it drains itself.

A wake-up is only a hint. What fails here is logged and left to the next minute's sweep: raising would make Lambda
repeat the same stream records and hold up those behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from millrace.admission.schedules import enqueue_due
from millrace.model.errors import InvalidField, MillraceError
from millrace.model.keys import READY, WAITING, owner_of
from millrace.model.queue_state import QueueState
from millrace.worker.context import log
from millrace.worker.drainer import QueueDrainer, WakeRequest
from millrace.worker.sweeper import sweep_all
from millrace.worker.time_left import TimeLeft
from millrace.worker.worker import DrainResult

#: Workers started at the same time.
STARTERS = 8
#: What else a sweep does with the queues' states, before anything is drained.
AfterSweep = Callable[[QueueDrainer, Sequence[QueueState], TimeLeft], None]


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


def handle_wakeup(
    drainer: QueueDrainer, wakeup: Wakeup, time_left: TimeLeft, *, after_sweep: AfterSweep | None = None
) -> list[DrainResult]:
    """Do what a wake-up asks for: start workers where that is possible, and drain the rest here."""
    if wakeup.sweep:
        enqueue_due(drainer.runtime, drainer.definitions, drainer.default_tenant)
        states = drainer.runtime.store.list_all_queue_states()
        requests = sweep_all(drainer, states, time_left)
        if after_sweep is not None:
            _afterwards(after_sweep, drainer, states, time_left)
    else:
        requests = [request for request in wakeup.requests if drainer.works_on(request.queue)]
    if wakeup.stream:
        requests = _unserved(drainer, requests)
    results = [_drain(drainer, wake_request, time_left) for wake_request in requests]
    return [result for result in results if result is not None]


def _afterwards(
    after_sweep: AfterSweep, drainer: QueueDrainer, states: Sequence[QueueState], time_left: TimeLeft
) -> None:
    """What comes after the sweep, once every queue had its turn; its faults keep no queue from being drained."""
    try:
        after_sweep(drainer, states, time_left)
    except Exception:  # noqa: BLE001 (logged with its trace; the sweep itself is done)
        log.exception(
            "What follows a sweep failed; the next minute tries again.", extra={"action": "after_sweep_failed"}
        )


def _unserved(drainer: QueueDrainer, requests: list[WakeRequest]) -> list[WakeRequest]:
    """Start workers for queues, several at a time; returns the queues for which none could be started."""
    if drainer.invoke_worker is None or not requests:
        return requests
    with ThreadPoolExecutor(STARTERS, thread_name_prefix="start") as pool:
        served = list(pool.map(drainer.ensure_worker, requests))
    return [request for request, is_served in zip(requests, served, strict=True) if not is_served]


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
