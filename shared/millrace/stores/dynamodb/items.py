"""Nouns to items and back: the one place that knows the attributes of each in the tables.

Written out by hand in DynamoDB's own JSON: it runs for every message, and costs a few microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from millrace.model.keys import WITHDRAWN, partition
from millrace.model.message import (
    Attempt,
    Body,
    Entry,
    Message,
    MessageLocation,
    Place,
    Records,
    Result,
    WorkflowState,
)

Item = dict[str, Any]

#: Of what is encrypted; what is not has no such attribute.
YES = {"N": "1"}

MESSAGE, LOCATION, RESULT, WORKFLOW_STATE = "M", "L", "D", "S"


def message_key(message_id: str, kind: str) -> Item:
    return {"pk": {"S": f"M#{message_id}"}, "sk": {"S": kind}}


def place_key(place: Place) -> Item:
    return {"pk": {"S": place.pk}, "sk": {"S": place.sk}}


def number(value: int) -> dict[str, str]:
    return {"N": str(value)}


def int_in(item: Mapping[str, Any], name: str) -> int:
    found = item.get(name)
    return int(found["N"]) if found else 0


def text_in(item: Mapping[str, Any], name: str) -> str:
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
    return {**message_key(message.id, MESSAGE), **message_attributes(message), "ttl": number(message.ttl)}


def message_attributes(message: Message) -> Item:
    """What is empty is left out: each byte counts towards a write unit."""
    body = message.body
    item: Item = {
        "tenant": {"S": message.tenant},
        "queue": {"S": message.queue},
        "nonce": {"S": message.nonce},
        "shard": {"N": message.place.pk.rsplit("#", 1)[1]},
        "place": {"S": message.place.sk},
        "size": number(body.size),
        "type": {"S": message.content_type},
        "at": number(message.received_at),
        "dedupe": number(message.dedupe_until),
    }
    if body.blob:
        item["blob"] = {"S": body.blob}
    else:
        item["body"] = {"B": body.data}
    if body.digest:
        item["digest"] = {"B": body.digest}
    if body.encrypted:
        item["encrypted"] = YES
    if message.headers:
        item["headers"] = {"M": {name: {"S": value} for name, value in message.headers.items()}}
    optional = {
        "packing": body.packing,
        "corr": message.correlation_id,
        "idem": message.idempotency_key,
        "source": message.source,
        "origin": message.origin,
        "run": message.run,
        "key": message.key,
        "project": message.project,
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
            text_in(item, "packing"),
            text_in(item, "blob"),
            int_in(item, "size"),
            _bytes(item, "digest"),
            "encrypted" in item,
        ),
        content_type=item["type"]["S"],
        received_at=int_in(item, "at"),
        dedupe_until=int_in(item, "dedupe"),
        ttl=int_in(item, ttl),
        headers={name: value["S"] for name, value in headers["M"].items()} if headers else {},
        correlation_id=text_in(item, "corr"),
        idempotency_key=text_in(item, "idem"),
        source=text_in(item, "source"),
        origin=text_in(item, "origin"),
        run=text_in(item, "run"),
        key=text_in(item, "key"),
        project=text_in(item, "project"),
    )


def history_text(history: tuple[Attempt, ...]) -> dict[str, str]:
    rows = [[a.number, a.version, a.owner, a.started_at, a.ended_at, a.error_type, a.error] for a in history]
    return {"S": json.dumps(rows, ensure_ascii=False, separators=(",", ":"))}


def history_of(item: Mapping[str, Any]) -> tuple[Attempt, ...]:
    return tuple(Attempt(*row) for row in json.loads(text_in(item, "history") or "[]"))


def location_item(location: MessageLocation) -> Item:
    place = location.place or Place("", "")
    return {
        **message_key(location.id, LOCATION),
        "nonce": {"S": location.nonce},
        "place_pk": {"S": place.pk},
        "place_sk": {"S": place.sk},
        "dead": {"S": location.dead_letter},
        "purged": number(location.purged_at),
        "history": history_text(location.history),
        "broken": number(location.broken),
        "ttl": number(location.ttl),
    }


def location_of(item: Mapping[str, Any], message_id: str) -> MessageLocation:
    place_pk = text_in(item, "place_pk")
    return MessageLocation(
        message_id,
        text_in(item, "nonce"),
        Place(place_pk, text_in(item, "place_sk")) if place_pk else None,
        int_in(item, "ttl"),
        text_in(item, "dead"),
        int_in(item, "purged"),
        history_of(item),
        int_in(item, "broken"),
    )


def result_item(result: Result) -> Item:
    return {
        **message_key(result.id, RESULT),
        "nonce": {"S": result.nonce},
        "version": number(result.version),
        "at": number(result.finished_at),
        "snapshot": {"B": result.snapshot},
        "ttl": number(result.ttl),
        **({"encrypted": YES} if result.encrypted else {}),
    }


def result_of(item: Mapping[str, Any], message_id: str) -> Result:
    return Result(
        message_id,
        text_in(item, "nonce"),
        int_in(item, "version"),
        int_in(item, "at"),
        _bytes(item, "snapshot"),
        int_in(item, "ttl"),
        "encrypted" in item,
    )


def workflow_state_item(message_id: str, workflow_state: WorkflowState) -> Item:
    return {
        **message_key(message_id, WORKFLOW_STATE),
        "content": {"B": workflow_state.content},
        "version": number(workflow_state.version),
        "ttl": number(workflow_state.ttl),
        "nonce": {"S": workflow_state.nonce},
        **({"encrypted": YES} if workflow_state.encrypted else {}),
    }


def workflow_state_of(item: Mapping[str, Any]) -> WorkflowState:
    return WorkflowState(
        _bytes(item, "content"),
        int_in(item, "version"),
        int_in(item, "ttl"),
        text_in(item, "nonce"),
        "encrypted" in item,
    )


def records_of(found: list[Item], message_id: str) -> Records:
    """All that a query of a message's id brought."""
    items = {item["sk"]["S"]: item for item in found}
    message = message_of(items[MESSAGE], message_id) if MESSAGE in items else None
    return Records(
        message if message and message.place.sk != WITHDRAWN else None,
        location_of(items[LOCATION], message_id) if LOCATION in items else None,
        result_of(items[RESULT], message_id) if RESULT in items else None,
        workflow_state_of(items[WORKFLOW_STATE]) if WORKFLOW_STATE in items else None,
    )
