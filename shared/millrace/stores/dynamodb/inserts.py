"""Inserts of entries and messages as the text that DynamoDB is sent, for batches by the thousand.

An item as dictionaries, then as a statement, then as JSON costs several times as much as the text with the values put
into it. Which attributes an item has is still said in one place, `items`: the text is made from an item whose values
are marks, and each mark becomes a hole. The values are given in the item's order; an item with other values, or in
another order, is noticed when its text is made.
"""

from __future__ import annotations

from binascii import b2a_base64
from collections.abc import Iterable, Mapping
from functools import lru_cache
from json.encoder import encode_basestring_ascii as quoted
from math import ceil
from typing import Any

from millrace.model.message import Body, Entry, Message, Place
from millrace.stores.dynamodb.client import EncodedStatement
from millrace.stores.dynamodb.conditions import ABSENT
from millrace.stores.dynamodb.items import MESSAGE, Item, entry_item, message_item
from millrace.stores.dynamodb.minimal_client import encode_request
from millrace.stores.dynamodb.writes import BatchedWrite, EncodedInsert, insert_text, put

UNIT_BYTES = 1024
#: No number takes more; a message has five.
NUMBER_BYTES = 20
_ENTRY = (
    "pk", "sk", "id", "nonce", "enqueued_at", "expires_at", "priority", "correlation_id", "key", "project", "labels",
    "attempts", "deliveries", "version", "due", "token", "until", "since", "owner",
)  # fmt: skip
_MESSAGE = ("pk", "nonce", "shard", "sk", "size", "received_at", "dedupe_until", "data")
#: What some messages have, and what all messages of a sender have in common: in the order of their attributes.
_OPTIONAL = ("packing", "correlation_id", "idempotency_key", "origin", "key", "project")
_SHARED = ("tenant", "queue", "content_type", "source", "run")


def insert_of_entry(table: str, entry: Entry) -> EncodedInsert:
    """The write of a new entry: one write unit, whatever it holds."""
    pk, sk = entry.place
    text = _entry_text(table) % (
        quoted(pk), quoted(sk), quoted(entry.id), quoted(entry.nonce), entry.enqueued_at, entry.expires_at,
        entry.priority, quoted(entry.correlation_id), quoted(entry.key), quoted(entry.project),
        quoted(",".join(entry.labels)), entry.attempts, entry.deliveries, entry.version, entry.due,
        quoted(entry.token), entry.until, entry.since, quoted(entry.owner),
    )  # fmt: skip
    return EncodedInsert(table, entry.place, EncodedStatement(text, 1))


def insert_of_message(table: str, message: Message) -> BatchedWrite:
    """The write of a new message."""
    body = message.body
    if body.blob or body.digest or body.encrypted or message.headers:  # few have any
        return put(table, message_item(message), ABSENT)
    optional = (
        body.packing, message.correlation_id, message.idempotency_key, message.origin, message.key, message.project,
    )  # fmt: skip
    shared = (message.tenant, message.queue, message.content_type, message.source, message.run)
    text, fixed = _message_text(table, tuple(map(bool, optional)), shared)
    pk, (partition, sk) = f"M#{message.id}", message.place
    shard = partition.rpartition("#")[2]
    given = (pk, message.nonce, sk, *filter(None, optional))
    q_pk, nonce, q_sk, *others = map(quoted, given)
    data = b2a_base64(body.data, newline=False).decode("ascii")
    statement = text % (
        q_pk, nonce, shard, q_sk, body.size, message.received_at, message.dedupe_until, data, *others, message.ttl,
    )  # fmt: skip
    size = fixed + len(body.data) + _bytes("".join(given))
    if size + 5 * NUMBER_BYTES > UNIT_BYTES:
        numbers = (shard, body.size, message.received_at, message.dedupe_until, message.ttl)
        size += sum([(len(str(number)) + 1) // 2 + 1 for number in numbers])
    return EncodedInsert(table, (pk, MESSAGE), EncodedStatement(statement, ceil(size / UNIT_BYTES)))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


@lru_cache(maxsize=16)
def _entry_text(table: str) -> str:
    marks = _marks(_ENTRY)
    place = Place(marks["pk"], marks["sk"])
    own = {name: mark for name, mark in marks.items() if name not in ("pk", "sk")}
    return _with_holes(table, entry_item(Entry(place, **(own | {"labels": (own["labels"],)}))), marks)


@lru_cache(maxsize=256)
def _message_text(table: str, present: tuple[bool, ...], shared: tuple[str, ...]) -> tuple[str, int]:
    """The text of a message with these of its optional attributes, and the bytes of all that is fixed in it."""
    named = [name for name, is_there in zip(_OPTIONAL, present, strict=True) if is_there]
    marks = _marks((*_MESSAGE, *named, "ttl"))
    body = Body(marks["data"], marks.get("packing", ""), size=marks["size"])
    own = {name: marks[name] for name in (*named, "nonce", "received_at", "dedupe_until", "ttl") if name != "packing"}
    constant: Any = dict(zip(_SHARED, shared, strict=True))
    item = message_item(Message("", place=Place("#", marks["sk"]), body=body, **own, **constant))
    item |= {"pk": {"S": marks["pk"]}, "shard": {"N": marks["shard"]}}
    return _with_holes(table, item, marks), sum(map(len, item)) + len(MESSAGE) + sum(map(_bytes, shared))


def _marks(names: Iterable[str]) -> dict[str, Any]:
    """A mark for each value, known by what it is and not by what it says: a value of somebody's may say the same."""
    return {name: f"@{name}@" for name in names}


def _with_holes(table: str, item: Item, marks: Mapping[str, Any]) -> str:
    """A statement's text with a hole in place of each mark. A text comes with its quotation marks."""
    names = {id(mark): name for name, mark in marks.items()}
    found, parts = [], []
    for value in item.values():
        ((kind, held),) = value.items()
        if id(held) in names:
            found.append(names[id(held)])
            parts.append('{"S":%s}' if kind == "S" else f'{{"{kind}":"%s"}}')
        else:
            parts.append(_doubled(value))
    if found != list(marks):
        raise AssertionError(f"the values of an item are {found}, and not {list(marks)}")
    text = quoted(insert_text(table, tuple(item))).replace("%", "%%")
    return f'{{"Statement":{text},"Parameters":[{",".join(parts)}]}}'


def _doubled(value: dict[str, Any]) -> str:
    return encode_request(value).decode("ascii").replace("%", "%%")
