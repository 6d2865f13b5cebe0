"""How entries are laid out in the queue table, so that reading a lane from its head is reading it in order.

    pk   Q#{tenant}#{queue}#{shard}
    sk   R#{9999-priority}#{order}              ready lane
         R#{9999-priority}#{key group}#{order}  ready lane of a queue whose keys take turns or keep their order
         W#{due}#{order}                        waiting lane: delayed and backing-off entries

`order` is a UUIDv7, or a zero-padded sequence number in an ordered queue.
"""

from __future__ import annotations

from hashlib import blake2b

from millrace.model.message import Place
from millrace.model.queue_spec import MAX_PRIORITY, Ordering, QueueSpec

READY = "R#"
WAITING = "W#"
#: Stands in a message item in place of a sort key: its entry was removed before the message was committed.
WITHDRAWN = "X#"
#: Sorts behind everything that a sort key can hold.
END = "~"


def partition(tenant: str, queue: str, shard: int) -> str:
    return f"Q#{tenant}#{queue}#{shard}"


def owner_of(pk: str) -> tuple[str, str]:
    """The tenant and queue that a partition belongs to."""
    _, tenant, queue, _ = pk.split("#")
    return tenant, queue


def shard_of(spec: QueueSpec, key: str, message_id: str) -> int:
    return spread(key or message_id) % spec.shards


def ready_place(tenant: str, spec: QueueSpec, *, key: str, message_id: str, priority: int, order: str) -> Place:
    group = f"{key_group(key)}#" if spec.keyed else ""
    pk = partition(tenant, spec.name, shard_of(spec, key, message_id))
    return Place(pk, f"{priority_prefix(priority)}{group}{order}")


def waiting_place(pk: str, due: int, order: str) -> Place:
    return Place(pk, f"{WAITING}{due:013d}#{order}")


def priority_prefix(priority: int) -> str:
    """Highest priority first: the ready lane sorts upwards, so the number is turned around."""
    return f"{READY}{MAX_PRIORITY - priority:04d}#"


def order_of(place: Place) -> str:
    """What entries of one priority are sorted by; it stays when an entry changes its lane."""
    return place.sk.rsplit("#", 1)[1]


def group_of(place: Place) -> str:
    """Everything of a sort key in front of its order: the priority, and the key group where there is one."""
    return place.sk.rsplit("#", 1)[0] + "#"


def sequence_order(number: int) -> str:
    return f"{number:015d}"


def due_now(now: int) -> str:
    """Upper bound of the waiting lane's due part."""
    return f"{WAITING}{now:013d}#{END}"


def may_set_priority(ordering: Ordering) -> bool:
    """In an ordered queue arrival alone decides; a priority would break the promise."""
    return not ordering.ordered


def spread(text: str) -> int:
    """A stable number for `text`, even over its range: chooses shards and key groups."""
    return int.from_bytes(blake2b(text.encode(), digest_size=5).digest(), "big")


def key_group(key: str) -> str:
    """Where the entries of one key lie together. Two keys may share a group; they then take turns as one."""
    return f"{spread(key):010x}"
