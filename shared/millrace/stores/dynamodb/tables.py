"""The two tables as PynamoDB models: their keys, the typed attributes of every item, and how they are made.

This is the schema; `items.py` writes and reads the items on the way of a message, without PynamoDB and its SDK in a
cold start, and a test holds that both name the same attributes with the same types.
"""

from __future__ import annotations

from typing import Any

from pynamodb.attributes import (
    BinaryAttribute,
    MapAttribute,
    NumberAttribute,
    TTLAttribute,
    UnicodeAttribute,
)
from pynamodb.constants import PAY_PER_REQUEST_BILLING_MODE, STREAM_KEYS_ONLY
from pynamodb.models import Model

from millrace.stores.dynamodb.client import TableNames


class _Keyed(Model):
    pk = UnicodeAttribute(hash_key=True)
    sk = UnicodeAttribute(range_key=True)


class EntryItem(_Keyed):
    """A message's place in a queue."""

    id = UnicodeAttribute()
    nonce = UnicodeAttribute()
    at = NumberAttribute()
    expires = NumberAttribute()
    priority = NumberAttribute()
    corr = UnicodeAttribute()
    key = UnicodeAttribute()
    project = UnicodeAttribute()
    labels = UnicodeAttribute()
    attempts = NumberAttribute()
    deliveries = NumberAttribute()
    version = NumberAttribute()
    due = NumberAttribute()
    token = UnicodeAttribute()
    until = NumberAttribute()
    since = NumberAttribute()
    owner = UnicodeAttribute()


class _MessageAttributes(_Keyed):
    tenant = UnicodeAttribute()
    queue = UnicodeAttribute()
    nonce = UnicodeAttribute()
    shard = NumberAttribute()
    place = UnicodeAttribute()
    size = NumberAttribute()
    type = UnicodeAttribute()
    at = NumberAttribute()
    dedupe = NumberAttribute()
    body = BinaryAttribute(null=True, legacy_encoding=False)
    blob = UnicodeAttribute(null=True)
    digest = BinaryAttribute(null=True, legacy_encoding=False)
    headers: MapAttribute[str, Any] = MapAttribute(null=True)  # type: ignore[no-untyped-call]
    packing = UnicodeAttribute(null=True)
    encrypted = NumberAttribute(null=True)
    corr = UnicodeAttribute(null=True)
    idem = UnicodeAttribute(null=True)
    source = UnicodeAttribute(null=True)
    origin = UnicodeAttribute(null=True)
    run = UnicodeAttribute(null=True)
    key = UnicodeAttribute(null=True)
    project = UnicodeAttribute(null=True)
    ttl = TTLAttribute()


class MessageItem(_MessageAttributes):
    """What was accepted."""


class LocationItem(_Keyed):
    """Where a message's entry went."""

    nonce = UnicodeAttribute()
    place_pk = UnicodeAttribute()
    place_sk = UnicodeAttribute()
    dead = UnicodeAttribute()
    purged = NumberAttribute()
    broken = NumberAttribute()
    history = UnicodeAttribute()
    ttl = TTLAttribute()


class ResultItem(_Keyed):
    """What a finished message gave."""

    nonce = UnicodeAttribute()
    version = NumberAttribute()
    at = NumberAttribute()
    snapshot = BinaryAttribute(legacy_encoding=False)
    encrypted = NumberAttribute(null=True)
    ttl = TTLAttribute()


class WorkflowStateItem(_Keyed):
    """A message's workflow state."""

    nonce = UnicodeAttribute()
    content = BinaryAttribute(legacy_encoding=False)
    encrypted = NumberAttribute(null=True)
    version = NumberAttribute()
    ttl = TTLAttribute()


class QueueStateItem(_Keyed):
    """A queue's counters; those by minute and day are named as they come."""

    depth = NumberAttribute(null=True)
    returned = NumberAttribute(null=True)
    epoch = NumberAttribute(null=True)
    paused = NumberAttribute(null=True)
    paused_by = UnicodeAttribute(null=True)
    arrived = NumberAttribute(null=True)
    done = NumberAttribute(null=True)
    failed = NumberAttribute(null=True)
    dead = NumberAttribute(null=True)
    pace = NumberAttribute(null=True)
    repaired = NumberAttribute(null=True)
    moved = NumberAttribute(null=True)
    recent = UnicodeAttribute(null=True)
    listed = NumberAttribute(null=True)
    z = UnicodeAttribute(null=True)


class OrderNumbersItem(_Keyed):
    """How many order numbers a shard of an ordered queue has given out."""

    sequence = NumberAttribute(null=True)


class RegisteredItem(_Keyed):
    """A queue that the sweep goes over."""


class SlotItem(_Keyed):
    """A worker's place among those that a queue may have."""

    token = UnicodeAttribute()
    until = NumberAttribute()
    ttl = TTLAttribute()


class SweepPositionItem(_Keyed):
    """Where the last round over all queues stopped."""

    position = UnicodeAttribute()


class SampleItem(_Keyed):
    """An hour of a queue's samples; each is an attribute named by its five minutes, `s00` to `s11`."""

    ttl = TTLAttribute()


class DictionaryItem(_Keyed):
    """What bodies of a queue are packed with."""

    data = BinaryAttribute(legacy_encoding=False)
    until = NumberAttribute()
    ttl = TTLAttribute()


class BodySampleItem(_Keyed):
    """Messages that a queue's next dictionary is made from."""

    ids = UnicodeAttribute()
    ttl = TTLAttribute()


class DeadLetterItem(_MessageAttributes):
    """A failed message, complete."""

    id = UnicodeAttribute()
    failed = NumberAttribute()
    reason = UnicodeAttribute()
    error = UnicodeAttribute()
    error_type = UnicodeAttribute()
    attempts = NumberAttribute()
    deliveries = NumberAttribute()
    priority = NumberAttribute()
    key = UnicodeAttribute()
    project = UnicodeAttribute()
    labels = UnicodeAttribute()
    history = UnicodeAttribute()
    message_ttl = NumberAttribute()
    replayed = NumberAttribute()
    replayed_as = UnicodeAttribute()
    replay_job = UnicodeAttribute()


def create_tables(
    names: TableNames, *, endpoint_url: str | None = None, region: str | None = None, stream: bool = False
) -> None:
    """Make both tables where they are missing: for tests and the local stack. In the cloud the template does it.

    A stream only where it is read: DynamoDB Local walks all its records for every write, and slows down with them.
    """
    where = {"host": endpoint_url, "billing_mode": PAY_PER_REQUEST_BILLING_MODE}
    if region:
        where["region"] = region
    queue = {"table_name": names.queue, **({"stream_view_type": STREAM_KEYS_ONLY} if stream else {}), **where}
    dead_letters = {"table_name": names.dead_letters, **where}
    for model, settings in ((MessageItem, queue), (DeadLetterItem, dead_letters)):
        table: Any = type(f"{model.__name__}Table", (model,), {"Meta": type("Meta", (), settings)})
        if not table.exists():
            table.create_table(wait=True)
