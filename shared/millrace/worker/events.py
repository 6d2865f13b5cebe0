"""What wakes the worker: the table's stream, the schedule, or a call for one queue.

{"Records": [{"eventSource": "aws:dynamodb", …}]}     entries appeared: their queues, each once
{"source": "aws.events", …} or {"sweep": true}        every minute: look after every queue
{"tenant": "t", "queue": "Q", "slot": 0}              one queue
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millrace.model.errors import InvalidField
from millrace.model.keys import READY, WAITING, owner_of
from millrace.worker.drainer import WakeRequest


@dataclass(frozen=True, slots=True)
class Wake:
    """Who is to be looked after: some queues, or all."""

    queues: tuple[WakeRequest, ...] = ()
    sweep: bool = False


def read_event(event: Mapping[str, Any]) -> Wake:
    """What an event asks for. Raises InvalidField for one that asks for nothing known."""
    if "Records" in event:
        return Wake(_woken(event["Records"]))
    if event.get("sweep") is True or event.get("source") in ("aws.events", "aws.scheduler"):
        return Wake(sweep=True)
    if isinstance(event.get("tenant"), str) and isinstance(event.get("queue"), str):
        slot = event.get("slot", 0)
        number = slot if isinstance(slot, int) and slot >= 0 else 0
        return Wake((WakeRequest(event["tenant"], event["queue"], number, fanned=event.get("fanned") is True),))
    raise InvalidField("event", "asks for nothing known", "stream records, a schedule, or a tenant and queue")


def _woken(records: list[Mapping[str, Any]]) -> tuple[WakeRequest, ...]:
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
