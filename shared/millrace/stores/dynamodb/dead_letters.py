"""The dead-letter table: its items, and what is done with them.

    pk   {tenant}#{queue}#{part}   eight parts, by the message's id: an outage fills them evenly
    sk   {failed_ms}#{id}

A list reads all the parts and merges them by their sort keys.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from millrace.model.cursor import Page
from millrace.model.keys import spread
from millrace.model.message import DeadLetter, DeadLetterReason
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.conditions import PRESENT, Condition, equal
from millrace.stores.dynamodb.items import (
    Item,
    history_of,
    history_text,
    int_in,
    message_attributes,
    message_of,
    number,
    text_in,
)
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient
from millrace.stores.dynamodb.side_by_side import side_by_side
from millrace.stores.dynamodb.writes import delete, update

_NOT_REPLAYED = equal("replayed", 0)


#: Partitions of a queue's dead letters. It is part of where they lie: changed, those that are there are not found.
PARTS = 8
#: Parts are not quite even: so much more than its share of a page is read of each.
MORE_THAN_A_SHARE = 4


class DeadLetters:
    """Dead letters of a queue, in the order in which they failed."""

    _calls: RetryingClient
    _names: TableNames

    def read_dead_letters(
        self, tenant: str, queue: str, after: str, upto: str, limit: int, *, newest_first: bool = False
    ) -> Page[DeadLetter]:
        """One query for each part, and one more for each that holds more than its share of the page."""
        share = limit // PARTS + MORE_THAN_A_SHARE
        parts = [
            _Part(self, f"{tenant}#{queue}#{part}", after, upto, min(limit, share), newest_first)
            for part in range(PARTS)
        ]
        side_by_side(_Part.fill, parts)
        items: list[Item] = []
        while len(items) < limit:
            first = [part for part in parts if part.items]
            if not first:
                break
            chosen = (max if newest_first else min)(first, key=lambda part: sort_key(part.items[0]))
            items.append(chosen.items.popleft())
            if not chosen.items:
                chosen.fill()
        more = any(part.items for part in parts)
        return Page(tuple(map(dead_letter_of, items)), sort_key(items[-1]) if items and more else None)

    def _query_part(
        self, pk: str, after: str, upto: str, limit: int, *, newest_first: bool
    ) -> tuple[list[Item], str | None]:
        return self._calls.query_between(self._names.dead_letters, pk, after, upto, limit, newest_first=newest_first)

    def get_dead_letter(self, tenant: str, queue: str, sk: str) -> DeadLetter | None:
        item = self._calls.get_item(self._names.dead_letters, dead_letter_key(tenant, queue, sk))
        return dead_letter_of(item) if item else None

    def mark_replayed(self, dead_letter: DeadLetter) -> bool:
        """One write for the first replay, two for a later one."""
        try:
            self._mark(dead_letter, _NOT_REPLAYED)
        except ConditionFailed as refusal:
            own = refusal.after_no_answer and text_in(refusal.item or {}, "replayed_as") == dead_letter.replayed_as
            if refusal.item and not own:
                with suppress(ConditionFailed):  # it was purged meanwhile
                    self._mark(dead_letter, PRESENT)
            return own
        return True

    def _mark(self, dead_letter: DeadLetter, condition: Condition) -> None:
        write = update(self._names.dead_letters, _key_of(dead_letter), condition, sets=replay_attributes(dead_letter))
        self._calls.send("update_item", **write.request())

    def delete_dead_letter(self, dead_letter: DeadLetter) -> bool:
        """A deletion that found nothing after a try without an answer was most likely that try's own."""
        as_read = equal("replayed", dead_letter.replayed_at)
        write = delete(self._names.dead_letters, _key_of(dead_letter), as_read)
        try:
            self._calls.send("delete_item", **write.request())
        except ConditionFailed as refusal:
            return refusal.after_no_answer and not refusal.item
        return True


class _Part:
    """One partition of a list: what was read of it and not handed out yet, and where it goes on."""

    def __init__(self, table: DeadLetters, pk: str, after: str, upto: str, limit: int, newest_first: bool) -> None:  # noqa: FBT001
        self._table = table
        self._pk = pk
        self._after = after
        self._upto = upto
        self._limit = limit
        self._newest_first = newest_first
        self._over = False
        self.items: deque[Item] = deque()

    def fill(self) -> None:
        """Read on, where there may be more."""
        if self._over:
            return
        found, last = self._table._query_part(
            self._pk, self._after, self._upto, self._limit, newest_first=self._newest_first
        )
        self.items.extend(found)
        self._over = last is None
        if last is not None and self._newest_first:
            self._upto = last
        elif last is not None:
            self._after = last


def sort_key(item: Item) -> str:
    return str(item["sk"]["S"])


def dead_letter_key(tenant: str, queue: str, sk: str) -> Item:
    """Its part is told by the id of its message, which is in its sort key: what has the one finds the other."""
    part = spread(sk.rpartition("#")[2]) % PARTS
    return {"pk": {"S": f"{tenant}#{queue}#{part}"}, "sk": {"S": sk}}


def _key_of(dead_letter: DeadLetter) -> Item:
    return dead_letter_key(dead_letter.message.tenant, dead_letter.message.queue, dead_letter.sk)


def dead_letter_item(dead_letter: DeadLetter) -> Item:
    message = dead_letter.message
    return {
        **message_attributes(message),
        **dead_letter_key(message.tenant, message.queue, dead_letter.sk),
        "id": {"S": message.id},
        "failed": number(dead_letter.failed_at),
        "reason": {"S": dead_letter.reason.value},
        "error": {"S": dead_letter.error},
        "error_type": {"S": dead_letter.error_type},
        "attempts": number(dead_letter.attempts),
        "deliveries": number(dead_letter.deliveries),
        "priority": number(dead_letter.priority),
        "key": {"S": dead_letter.key},
        "project": {"S": dead_letter.project},
        "labels": {"S": ",".join(dead_letter.labels)},
        "history": history_text(dead_letter.history),
        "message_ttl": number(message.ttl),
        "ttl": number(dead_letter.ttl),
        **replay_attributes(dead_letter),
    }


def replay_attributes(dead_letter: DeadLetter) -> Item:
    return {
        "replayed": number(dead_letter.replayed_at),
        "replayed_as": {"S": dead_letter.replayed_as},
        "replay_job": {"S": dead_letter.replay_job},
    }


def dead_letter_of(item: Mapping[str, Any]) -> DeadLetter:
    labels = text_in(item, "labels")
    return DeadLetter(
        message_of(item, item["id"]["S"], ttl="message_ttl"),
        failed_at=int_in(item, "failed"),
        reason=DeadLetterReason(item["reason"]["S"]),
        error=text_in(item, "error"),
        error_type=text_in(item, "error_type"),
        attempts=int_in(item, "attempts"),
        deliveries=int_in(item, "deliveries"),
        priority=int_in(item, "priority"),
        key=text_in(item, "key"),
        project=text_in(item, "project"),
        labels=tuple(labels.split(",")) if labels else (),
        history=history_of(item),
        ttl=int_in(item, "ttl"),
        replayed_at=int_in(item, "replayed"),
        replayed_as=text_in(item, "replayed_as"),
        replay_job=text_in(item, "replay_job"),
    )
