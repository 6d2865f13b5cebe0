"""Nouns to items and back: the one place that knows how each is spelled in the tables.

Written out by hand in DynamoDB's own JSON: it runs for every message, and costs a few microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from millrace.model.keys import partition
from millrace.model.message import (
    Attempt,
    Body,
    DeadLetter,
    DeadLetterReason,
    Entry,
    Message,
    MessageLocation,
    Place,
    Records,
    Result,
    WorkflowState,
)
from millrace.model.queue_state import BreakerState, QueueState, Slot

Item = dict[str, Any]

MESSAGE, LOCATION, RESULT, WORKFLOW_STATE = "M", "L", "D", "S"
QUEUES = "QUEUES"
#: An open circuit breaker is an attribute of the queue's state, named by this and its target.
BREAKER = "open "


def message_key(message_id: str, kind: str) -> Item:
    return {"pk": {"S": f"M#{message_id}"}, "sk": {"S": kind}}


def place_key(place: Place) -> Item:
    return {"pk": {"S": place.pk}, "sk": {"S": place.sk}}


def _number(value: int) -> dict[str, str]:
    return {"N": str(value)}


def _int(item: Mapping[str, Any], name: str) -> int:
    found = item.get(name)
    return int(found["N"]) if found else 0


def _text(item: Mapping[str, Any], name: str) -> str:
    found = item.get(name)
    return str(found["S"]) if found else ""


def _bytes(item: Mapping[str, Any], name: str) -> bytes:
    found = item.get(name)
    return bytes(found["B"]) if found else b""


def entry_item(entry: Entry) -> Item:
    """Every attribute is always there, so that one statement text serves every entry."""
    return {
        "pk": {"S": entry.place.pk},
        "sk": {"S": entry.place.sk},
        "id": {"S": entry.id},
        "nonce": {"S": entry.nonce},
        "at": {"N": str(entry.enqueued_at)},
        "expires": {"N": str(entry.expires_at)},
        "priority": {"N": str(entry.priority)},
        "corr": {"S": entry.correlation_id},
        "key": {"S": entry.key},
        "project": {"S": entry.project},
        "labels": {"S": ",".join(entry.labels)},
        "attempts": {"N": str(entry.attempts)},
        "deliveries": {"N": str(entry.deliveries)},
        "version": {"N": str(entry.version)},
        **held_attributes(entry),
    }


def held_attributes(entry: Entry) -> Item:
    """What extending, releasing and waiting in place change."""
    return {
        "due": {"N": str(entry.due)},
        "token": {"S": entry.token},
        "until": {"N": str(entry.until)},
        "since": {"N": str(entry.since)},
        "owner": {"S": entry.owner},
    }


def claim_attributes(entry: Entry) -> Item:
    """What a claim changes."""
    return {
        "version": {"N": str(entry.version)},
        "attempts": {"N": str(entry.attempts)},
        "deliveries": {"N": str(entry.deliveries)},
        **held_attributes(entry),
    }


def entry_of(item: Mapping[str, Any]) -> Entry:
    labels = item["labels"]["S"]
    return Entry(
        Place(item["pk"]["S"], item["sk"]["S"]),
        id=item["id"]["S"],
        nonce=item["nonce"]["S"],
        enqueued_at=int(item["at"]["N"]),
        expires_at=int(item["expires"]["N"]),
        priority=int(item["priority"]["N"]),
        correlation_id=item["corr"]["S"],
        key=item["key"]["S"],
        project=item["project"]["S"],
        labels=tuple(labels.split(",")) if labels else (),
        due=int(item["due"]["N"]),
        attempts=int(item["attempts"]["N"]),
        deliveries=int(item["deliveries"]["N"]),
        version=int(item["version"]["N"]),
        token=item["token"]["S"],
        until=int(item["until"]["N"]),
        since=int(item["since"]["N"]),
        owner=item["owner"]["S"],
    )


def message_item(message: Message) -> Item:
    return {**message_key(message.id, MESSAGE), **message_attributes(message), "ttl": _number(message.ttl)}


def message_attributes(message: Message) -> Item:
    """What is empty is left out: each byte counts towards a write unit."""
    body = message.body
    item: Item = {
        "tenant": {"S": message.tenant},
        "queue": {"S": message.queue},
        "nonce": {"S": message.nonce},
        "shard": {"N": message.place.pk.rsplit("#", 1)[1]},
        "place": {"S": message.place.sk},
        "size": _number(body.size),
        "type": {"S": message.content_type},
        "at": _number(message.received_at),
        "dedupe": _number(message.dedupe_until),
    }
    if body.blob:
        item["blob"] = {"S": body.blob}
        item["digest"] = {"B": body.digest}
    else:
        item["body"] = {"B": body.data}
    if message.headers:
        item["headers"] = {"M": {name: {"S": value} for name, value in message.headers.items()}}
    optional = {
        "packing": body.packing,
        "corr": message.correlation_id,
        "idem": message.idempotency_key,
        "source": message.source,
        "origin": message.origin,
        "run": message.run,
    }
    item.update((name, {"S": value}) for name, value in optional.items() if value)
    return item


def message_of(item: Mapping[str, Any], message_id: str, ttl: str = "ttl") -> Message:
    tenant, queue = item["tenant"]["S"], item["queue"]["S"]
    headers = item.get("headers")
    return Message(
        id=message_id,
        tenant=tenant,
        queue=queue,
        nonce=item["nonce"]["S"],
        place=Place(partition(tenant, queue, int(item["shard"]["N"])), item["place"]["S"]),
        body=Body(
            _bytes(item, "body"),
            _text(item, "packing"),
            _text(item, "blob"),
            _int(item, "size"),
            _bytes(item, "digest"),
        ),
        content_type=item["type"]["S"],
        received_at=_int(item, "at"),
        dedupe_until=_int(item, "dedupe"),
        ttl=_int(item, ttl),
        headers={name: value["S"] for name, value in headers["M"].items()} if headers else {},
        correlation_id=_text(item, "corr"),
        idempotency_key=_text(item, "idem"),
        source=_text(item, "source"),
        origin=_text(item, "origin"),
        run=_text(item, "run"),
    )


def _history_text(history: tuple[Attempt, ...]) -> dict[str, str]:
    rows = [[a.number, a.version, a.owner, a.started_at, a.ended_at, a.error_type, a.error] for a in history]
    return {"S": json.dumps(rows, ensure_ascii=False, separators=(",", ":"))}


def _history_of(item: Mapping[str, Any]) -> tuple[Attempt, ...]:
    return tuple(Attempt(*row) for row in json.loads(_text(item, "history") or "[]"))


def location_item(location: MessageLocation) -> Item:
    place = location.place or Place("", "")
    return {
        **message_key(location.id, LOCATION),
        "nonce": {"S": location.nonce},
        "place_pk": {"S": place.pk},
        "place_sk": {"S": place.sk},
        "dead": {"S": location.dead_letter},
        "purged": _number(location.purged_at),
        "history": _history_text(location.history),
        "ttl": _number(location.ttl),
    }


def location_of(item: Mapping[str, Any], message_id: str) -> MessageLocation:
    place_pk = _text(item, "place_pk")
    return MessageLocation(
        message_id,
        _text(item, "nonce"),
        Place(place_pk, _text(item, "place_sk")) if place_pk else None,
        _int(item, "ttl"),
        _text(item, "dead"),
        _int(item, "purged"),
        _history_of(item),
    )


def result_item(result: Result) -> Item:
    return {
        **message_key(result.id, RESULT),
        "nonce": {"S": result.nonce},
        "version": _number(result.version),
        "at": _number(result.finished_at),
        "snapshot": {"B": result.snapshot},
        "ttl": _number(result.ttl),
    }


def result_of(item: Mapping[str, Any], message_id: str) -> Result:
    return Result(
        message_id,
        _text(item, "nonce"),
        _int(item, "version"),
        _int(item, "at"),
        _bytes(item, "snapshot"),
        _int(item, "ttl"),
    )


def workflow_state_item(message_id: str, workflow_state: WorkflowState) -> Item:
    return {
        **message_key(message_id, WORKFLOW_STATE),
        "content": {"B": workflow_state.content},
        "version": _number(workflow_state.version),
        "ttl": _number(workflow_state.ttl),
        "nonce": {"S": workflow_state.nonce},
    }


def workflow_state_of(item: Mapping[str, Any]) -> WorkflowState:
    return WorkflowState(_bytes(item, "content"), _int(item, "version"), _int(item, "ttl"), _text(item, "nonce"))


def records_of(found: list[Item], message_id: str) -> Records:
    """All that a query of a message's id brought."""
    items = {item["sk"]["S"]: item for item in found}
    return Records(
        message_of(items[MESSAGE], message_id) if MESSAGE in items else None,
        location_of(items[LOCATION], message_id) if LOCATION in items else None,
        result_of(items[RESULT], message_id) if RESULT in items else None,
        workflow_state_of(items[WORKFLOW_STATE]) if WORKFLOW_STATE in items else None,
    )


def dead_letter_key(tenant: str, queue: str, sk: str) -> Item:
    return {"pk": {"S": f"{tenant}#{queue}"}, "sk": {"S": sk}}


def dead_letter_item(dead_letter: DeadLetter) -> Item:
    message = dead_letter.message
    return {
        **message_attributes(message),
        **dead_letter_key(message.tenant, message.queue, dead_letter.sk),
        "id": {"S": message.id},
        "failed": _number(dead_letter.failed_at),
        "reason": {"S": dead_letter.reason.value},
        "error": {"S": dead_letter.error},
        "error_type": {"S": dead_letter.error_type},
        "attempts": _number(dead_letter.attempts),
        "deliveries": _number(dead_letter.deliveries),
        "priority": _number(dead_letter.priority),
        "key": {"S": dead_letter.key},
        "project": {"S": dead_letter.project},
        "labels": {"S": ",".join(dead_letter.labels)},
        "history": _history_text(dead_letter.history),
        "message_ttl": _number(message.ttl),
        "ttl": _number(dead_letter.ttl),
        **replay_attributes(dead_letter),
    }


def replay_attributes(dead_letter: DeadLetter) -> Item:
    return {
        "replayed": _number(dead_letter.replayed_at),
        "replayed_as": {"S": dead_letter.replayed_as},
        "replay_job": {"S": dead_letter.replay_job},
    }


def dead_letter_of(item: Mapping[str, Any]) -> DeadLetter:
    labels = _text(item, "labels")
    return DeadLetter(
        message_of(item, item["id"]["S"], ttl="message_ttl"),
        failed_at=_int(item, "failed"),
        reason=DeadLetterReason(item["reason"]["S"]),
        error=_text(item, "error"),
        error_type=_text(item, "error_type"),
        attempts=_int(item, "attempts"),
        deliveries=_int(item, "deliveries"),
        priority=_int(item, "priority"),
        key=_text(item, "key"),
        project=_text(item, "project"),
        labels=tuple(labels.split(",")) if labels else (),
        history=_history_of(item),
        ttl=_int(item, "ttl"),
        replayed_at=_int(item, "replayed"),
        replayed_as=_text(item, "replayed_as"),
        replay_job=_text(item, "replay_job"),
    )


def queue_state_of(item: Mapping[str, Any], tenant: str, queue: str) -> QueueState:
    """Counters by minute or day are attributes of their own, named by a letter and the number: see `counter`."""
    counted: dict[str, dict[int, int]] = {dead_letter: {} for dead_letter in "gaed"}
    for name, value in item.items():
        if name[0] in counted and name[1:].isdigit():
            counted[name[0]][int(name[1:])] = int(value["N"])
    return QueueState(
        tenant,
        queue,
        depth=_int(item, "depth"),
        sequence=_int(item, "sequence"),
        returned=_int(item, "returned"),
        epoch=_int(item, "epoch"),
        paused_at=_int(item, "paused"),
        paused_by=_text(item, "paused_by"),
        arrived=_int(item, "arrived"),
        done=_int(item, "done"),
        failed=_int(item, "failed"),
        dead=_int(item, "dead"),
        grants=counted["g"],
        arrivals=counted["a"],
        endings=counted["e"],
        dead_days=counted["d"],
        pace_at=_int(item, "pace"),
        repaired_at=_int(item, "repaired"),
        breakers={
            name.removeprefix(BREAKER): BreakerState(*map(int, value["S"].split("/")))
            for name, value in item.items()
            if name.startswith(BREAKER)
        },
    )


def breaker_text(breaker: BreakerState) -> str:
    return f"{breaker.until}/{breaker.level}"


def slot_key(tenant: str, queue: str, number: int) -> Item:
    return {"pk": {"S": f"S#{tenant}#{queue}"}, "sk": {"S": f"{number:04d}"}}


def slot_item(tenant: str, queue: str, slot: Slot) -> Item:
    """It may be forgotten a day after it ran out: whoever needs it again writes it anew."""
    return {
        **slot_key(tenant, queue, slot.number),
        "token": {"S": slot.token},
        "until": _number(slot.until),
        "ttl": _number(slot.until // 1000 + 86_400),
    }


def counter(kind: str, number: int) -> str:
    """The attribute that counts grants (g), arrivals (a), endings (e) of a minute, or dead letters (d) of a day."""
    return f"{kind}{number}"
