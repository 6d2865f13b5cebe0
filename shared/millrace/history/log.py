"""Recording what happens to messages: the lines that `millrace check-history` holds against the promises.

One JSON line for each step, or for each batch that takes it together, on standard output, where CloudWatch finds it:

    {"action":"history","event":"done","at":1800000000000,"tenant":"t","queue":"Q","owner":"w1","messages":[["id",3,"nonce"]]}

A message is its id, the claim's version and the head of its nonce (an id may be used again once its window is over);
`accepted` adds, in an ordered queue, the line that it stands in, its number there, and when its sender began. Its line
has the queue's `max_attempts` and a `priority`; what may not run at once, sent late or given back, is `due` later.
Nothing that a sender wrote is in it: a key is named by its group, which is a hash.

Written directly and not by a logger: a logger's own fields would make it three times as long and seven times as slow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from json import dumps

from millrace.model.keys import group_of, order_of
from millrace.model.message import Entry, Message
from millrace.model.queue_spec import QueueSpec

ACTION = "history"
#: This much of a nonce distinguishes one life of an id from the next.
NONCE_HEAD = 8


class HistoryEvent(StrEnum):
    """What happened to a message."""

    ACCEPTED = "accepted"  #: its sender had a receipt
    STARTED = "started"  #: a run began under a claim
    ENDING = "ending"  #: an ack or a dead letter is about to be written
    DONE = "done"  #: the ack was recorded
    FAILED = "failed"  #: the run failed and will be repeated
    DEAD = "dead"  #: it became a dead letter
    STALE = "stale"  #: something was refused because the claim was not the newest
    RELEASED = "released"  #: given back without a charge
    PURGED = "purged"  #: an operator removed it


def to_standard_output(line: str) -> None:
    """One write and a flush: what a process wrote before it was killed is there."""
    sys.stdout.write(line)
    sys.stdout.flush()


class HistoryLog:
    """Writes the lines. Safe to share between threads."""

    def __init__(self, write: Callable[[str], object] = to_standard_output) -> None:
        self._write = write

    def accepted(self, tenant: str, spec: QueueSpec, at: int, messages: Iterable[tuple[Message, Entry | None]]) -> None:
        """Messages that their senders have a receipt for, each with its entry, or without where it was there already.

        One line for all of one priority that are due at once.
        """
        lines: dict[tuple[int, int], list[list[object]]] = {}
        for message, entry in messages:
            one: list[object] = [message.id, 0, message.nonce[:NONCE_HEAD]]
            if spec.ordering.ordered:
                one += [group_of(message.place), int(order_of(message.place)), message.received_at]
            lines.setdefault((entry.priority, entry.due) if entry else (0, 0), []).append(one)
        for (priority, due), rows in lines.items():
            more = {"max_attempts": spec.delivery.max_attempts, "priority": priority, "due": due}
            more["places"] = spec.concurrency_per_key or 0
            self._line(HistoryEvent.ACCEPTED, at, tenant, spec.name, "", rows, more)

    def happened(
        self, event: HistoryEvent, at: int, tenant: str, queue: str, entries: Sequence[Entry], due: int = 0
    ) -> None:
        """What happened to claimed entries: one line for each owner, and nearly always there is one."""
        by_owner: dict[str, list[list[object]]] = {}
        for entry in entries:
            by_owner.setdefault(entry.owner, []).append([entry.id, entry.version, entry.nonce[:NONCE_HEAD]])
        for owner, rows in by_owner.items():
            self._line(event, at, tenant, queue, owner, rows, {"due": due})

    def _line(
        self,
        event: HistoryEvent,
        at: int,
        tenant: str,
        queue: str,
        owner: str,
        rows: list[list[object]],
        more: dict[str, int],
    ) -> None:
        fields = {
            "action": ACTION,
            "event": event.value,
            "at": at,
            "tenant": tenant,
            "queue": queue,
            "owner": owner,
            **{name: value for name, value in more.items() if value},
            "messages": rows,
        }
        self._write(dumps(fields, separators=(",", ":")) + "\n")


def history_log(*, on: bool) -> HistoryLog | None:
    """A log on standard output, or none."""
    return HistoryLog() if on else None
