"""A queue's counters and slots as items, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.model.queue_state import BreakerState, QueueState, Slot
from millrace.stores.dynamodb.items import Item, int_in, number, text_in

QUEUES = "QUEUES"
#: An open circuit breaker is an attribute of the queue's state, named by this and its target.
BREAKER = "open "


def queue_state_key(tenant: str, queue: str) -> Item:
    return {"pk": {"S": QUEUES}, "sk": {"S": f"{tenant}#{queue}"}}


def queue_state_of(item: Mapping[str, Any], tenant: str, queue: str) -> QueueState:
    """Counters by minute or day are attributes of their own, named by a letter and the number: see `counter`."""
    counted: dict[str, dict[int, int]] = {kind: {} for kind in "gaed"}
    for name, value in item.items():
        if name[0] in counted and name[1:].isdigit():
            counted[name[0]][int(name[1:])] = int(value["N"])
    return QueueState(
        tenant,
        queue,
        depth=int_in(item, "depth"),
        sequence=int_in(item, "sequence"),
        returned=int_in(item, "returned"),
        epoch=int_in(item, "epoch"),
        paused_at=int_in(item, "paused"),
        paused_by=text_in(item, "paused_by"),
        arrived=int_in(item, "arrived"),
        done=int_in(item, "done"),
        failed=int_in(item, "failed"),
        dead=int_in(item, "dead"),
        grants=counted["g"],
        arrivals=counted["a"],
        endings=counted["e"],
        dead_days=counted["d"],
        pace_at=int_in(item, "pace"),
        repaired_at=int_in(item, "repaired"),
        breakers={
            name.removeprefix(BREAKER): BreakerState(*map(int, value["S"].split("/")))
            for name, value in item.items()
            if name.startswith(BREAKER)
        },
    )


def breaker_text(breaker: BreakerState) -> str:
    return f"{breaker.until}/{breaker.level}"


def slots_pk(tenant: str, queue: str) -> str:
    return f"S#{tenant}#{queue}"


def slot_key(tenant: str, queue: str, number: int) -> Item:
    return {"pk": {"S": slots_pk(tenant, queue)}, "sk": {"S": f"{number:04d}"}}


def slot_item(tenant: str, queue: str, slot: Slot) -> Item:
    """It may be forgotten a day after it ran out: whoever needs it again writes it anew."""
    return {
        **slot_key(tenant, queue, slot.number),
        "token": {"S": slot.token},
        "until": number(slot.until),
        "ttl": number(slot.until // 1000 + 86_400),
    }


def slot_of(item: Mapping[str, Any]) -> Slot:
    return Slot(int(item["sk"]["S"]), text_in(item, "token"), int_in(item, "until"))


def counter(kind: str, number: int) -> str:
    """The attribute that counts grants (g), arrivals (a), endings (e) of a minute, or dead letters (d) of a day."""
    return f"{kind}{number}"
