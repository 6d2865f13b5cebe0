"""The queue's counters in DynamoDB: one item a queue, changed by additions that many messages share."""

from __future__ import annotations

from typing import Any

from pynamodb.expressions.condition import Condition
from pynamodb.expressions.operand import Path

from millrace.model.errors import StoreUnavailable
from millrace.model.queue_state import BreakerState, CounterDelta, CreditRequest, QueueState, Slot
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.items import (
    BREAKER,
    QUEUES,
    Item,
    breaker_text,
    counter,
    queue_state_of,
    slot_item,
    slot_key,
)
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient
from millrace.stores.dynamodb.tables import QueueStateItem, Requests, SlotItem
from millrace.stores.interface import Full


def _state_key(tenant: str, queue: str) -> Item:
    return {"pk": {"S": QUEUES}, "sk": {"S": f"{tenant}#{queue}"}}


def _is(attribute: Any, value: int) -> Condition:
    """Equal, where a counter that was never written counts as zero."""
    equal: Condition = attribute == value
    return equal if value else attribute.does_not_exist() | equal


def _additions(amounts: dict[str, int]) -> list[Any]:
    return [Path(name).add(amount) for name, amount in amounts.items() if amount]


def _without(minutes: tuple[int, ...]) -> list[Any]:
    """Counters of minutes that nobody reads any more go with whatever write comes by."""
    return [Path(counter(kind, minute)).remove() for minute in minutes for kind in "gae"]


class Bookkeeping:
    """The queue-state items."""

    _calls: RetryingClient
    _requests: Requests
    _names: TableNames

    def take_credits(self, tenant: str, queue: str, take: CreditRequest) -> QueueState | Full:
        changes = _additions(
            {
                "depth": take.count,
                "sequence": take.numbers,
                "arrived": take.arrived,
                counter("g", take.minute): take.count,
                counter("a", take.minute): take.arrived,
            }
        )
        depth = QueueStateItem.depth
        room = depth.does_not_exist() | (depth <= take.max_depth - take.count)
        if take.count > take.max_depth:
            return Full(self.get_queue_state(tenant, queue))
        try:
            return self._change(tenant, queue, [*changes, *_without(take.stale_minutes)], room if take.count else None)
        except ConditionFailed as refusal:
            return Full(queue_state_of(refusal.item or {}, tenant, queue))

    def settle(self, tenant: str, queue: str, delta: CounterDelta) -> QueueState | None:
        """Additions cannot be recognised as one's own, so a booking without an answer is not repeated.

        The depth then stands too high, which the sweep mends; booked twice it would stand too low for good.
        """
        dead = {counter("d", day): count for day, count in delta.dead.items()}
        totals = {
            "done": delta.done,
            "failed": delta.failed,
            "dead": sum(count for count in delta.dead.values() if count > 0),
            "arrived": delta.arrived,
            counter("a", delta.minute): delta.arrived,
            counter("e", delta.minute): delta.done,
            **dead,
        }
        with_credits = {"depth": -delta.credits, "returned": delta.credits, **totals}
        stale = [*_without(delta.stale_minutes), *(Path(counter("d", day)).remove() for day in delta.stale_days)]
        counted_here = _is(QueueStateItem.epoch, delta.epoch) if delta.credits else None
        try:
            return self._book(tenant, queue, with_credits, stale, counted_here)
        except ConditionFailed as refusal:
            if not any(totals.values()):
                return queue_state_of(refusal.item or {}, tenant, queue)
            return self._book(tenant, queue, totals, stale, None)

    def _book(
        self, tenant: str, queue: str, amounts: dict[str, int], stale: list[Any], condition: Condition | None
    ) -> QueueState | None:
        if not any(amounts.values()):
            return None
        try:
            return self._change(tenant, queue, _additions(amounts) + stale, condition, repeatable=False)
        except StoreUnavailable:
            return None

    def get_queue_state(self, tenant: str, queue: str) -> QueueState:
        answer = self._calls.send(
            "get_item", TableName=self._names.queue, Key=_state_key(tenant, queue), ConsistentRead=True
        )
        return queue_state_of(answer.get("Item", {}), tenant, queue)

    def list_queue_states(self, tenant: str) -> list[QueueState]:
        return self._list("pk = :pk AND begins_with(sk, :tenant)", {":tenant": {"S": f"{tenant}#"}})

    def list_all_queue_states(self) -> list[QueueState]:
        return self._list("pk = :pk", {})

    def _list(self, condition: str, values: Item) -> list[QueueState]:
        states: list[QueueState] = []
        start: dict[str, Any] = {}
        while True:
            answer = self._calls.send(
                "query",
                TableName=self._names.queue,
                KeyConditionExpression=condition,
                ExpressionAttributeValues={":pk": {"S": QUEUES}, **values},
                ConsistentRead=True,
                **start,
            )
            states += [queue_state_of(item, *item["sk"]["S"].split("#", 1)) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return states
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def set_paused(self, tenant: str, queue: str, at: int, by: str) -> QueueState:
        return self._change(tenant, queue, [QueueStateItem.paused.set(at), QueueStateItem.paused_by.set(by)], None)

    def repair_depth(self, seen: QueueState, surplus: int, now: int) -> bool:
        unchanged = _is(QueueStateItem.returned, seen.returned) & _is(QueueStateItem.epoch, seen.epoch)
        changes = [*_additions({"depth": -surplus, "epoch": 1}), QueueStateItem.repaired.set(now)]
        try:
            self._change(seen.tenant, seen.queue, changes, unchanged, repeatable=False)
        except (ConditionFailed, StoreUnavailable):
            return False
        return True

    def set_pace(self, seen: QueueState, pace_at: int) -> bool:
        try:
            self._change(
                seen.tenant,
                seen.queue,
                [QueueStateItem.pace.set(pace_at)],
                _is(QueueStateItem.pace, seen.pace_at),
                repeatable=False,
            )
        except (ConditionFailed, StoreUnavailable):
            return False
        return True

    def set_breaker(self, seen: QueueState, target: str, breaker: BreakerState | None) -> bool:
        attribute = Path([BREAKER + target])
        before = seen.breakers.get(target)
        unchanged = attribute.does_not_exist() if before is None else attribute == breaker_text(before)
        change = attribute.remove() if breaker is None else attribute.set(breaker_text(breaker))
        try:
            self._change(seen.tenant, seen.queue, [change], unchanged, repeatable=False)
        except (ConditionFailed, StoreUnavailable):
            return False
        return True

    def take_slot(self, tenant: str, queue: str, slot: Slot, now: int) -> bool:
        free = SlotItem.pk.does_not_exist() | (SlotItem.until <= now) | (SlotItem.token == slot.token)
        try:
            self._calls.send("put_item", **self._requests.put(self._names.queue, slot_item(tenant, queue, slot), free))
        except ConditionFailed:
            return False
        return True

    def free_slot(self, tenant: str, queue: str, slot: Slot) -> None:
        key = slot_key(tenant, queue, slot.number)
        try:
            self._calls.send(
                "delete_item", **self._requests.delete(self._names.queue, key, SlotItem.token == slot.token)
            )
        except (ConditionFailed, StoreUnavailable):
            return  # it runs out by itself

    def _change(
        self, tenant: str, queue: str, actions: list[Any], condition: Condition | None, *, repeatable: bool = True
    ) -> QueueState:
        request = self._requests.update(self._names.queue, _state_key(tenant, queue), actions, condition)
        answer = self._calls.send("update_item", repeatable=repeatable, **request, ReturnValues="ALL_NEW")
        return queue_state_of(answer["Attributes"], tenant, queue)
