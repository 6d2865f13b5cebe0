"""A queue's counters in DynamoDB: one item a queue, under a key of its own, changed by additions that many share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millrace.model.clock import MINUTE
from millrace.model.errors import StoreUnavailable
from millrace.model.queue_state import BreakerState, CounterDelta, CreditRequest, QueueState, Slot
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.conditions import Condition, at_most, counter_is, equal, holds_token, missing, value_of
from millrace.stores.dynamodb.items import Item, int_in, number, text_in
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient
from millrace.stores.dynamodb.writes import delete, put, update
from millrace.stores.interface import Full

#: The sort key of a queue's state, which is alone under its partition key.
STATE = "C"
#: The attribute of a state whose queue is among those that the sweep goes over.
LISTED = "listed"
SWEEP = "SWEEP"
#: An open circuit breaker is an attribute of the queue's state, named by this and its target.
BREAKER = "open "
#: When the queue's dictionary was reviewed (the minute), and its name: short, for the item stays below 1 KB.
DICTIONARY = "z"


def _of_minutes(minutes: tuple[int, ...]) -> list[str]:
    """Counters of minutes that nobody reads any more: they go with whatever write comes next."""
    return [counter(kind, minute) for minute in minutes for kind in "gae"]


class Counters:
    """The queue-state items, and the slots of a queue's workers."""

    _calls: RetryingClient
    _names: TableNames

    def take_credits(self, tenant: str, queue: str, take: CreditRequest) -> QueueState | Full:
        if take.count > take.max_depth:
            return Full(self.get_queue_state(tenant, queue))
        minute = take.minute
        adds = {
            "depth": take.count,
            "arrived": take.arrived,
            counter("g", minute): take.count,
            counter("a", minute): take.arrived,
        }
        never_counted = missing("depth")
        room = at_most("depth", take.max_depth - take.count)
        condition = never_counted | room if take.count else None
        try:
            sets = {"moved": value_of(take.now)}
            stale = _of_minutes(take.stale_minutes)
            return self._change(tenant, queue, condition, adds=adds, sets=sets, removes=stale)
        except ConditionFailed as refusal:
            return Full(queue_state_of(refusal.item or {}, tenant, queue))

    def settle(self, tenant: str, queue: str, delta: CounterDelta) -> QueueState | None:
        """Additions cannot be recognised as one's own, so a write without an answer is not repeated.

        The depth is then too high, which the sweep repairs; counted twice it would be too low for good.
        """
        minute, given_back = delta.minute, delta.credits
        totals = {
            "done": delta.done,
            "failed": delta.failed,
            "dead": sum(count for count in delta.dead.values() if count > 0),
            "arrived": delta.arrived,
            counter("a", minute): delta.arrived,
            counter("e", minute): delta.done,
            **{counter("d", day): count for day, count in delta.dead.items()},
        }
        with_credits = {"depth": -given_back, "returned": given_back, **totals}
        stale = [*_of_minutes(delta.stale_minutes), *(counter("d", day) for day in delta.stale_days)]
        same_epoch = counter_is("epoch", delta.epoch) if given_back else None
        sets = {"moved": value_of(delta.now)}
        if delta.recent_done:
            sets["recent"] = value_of(",".join(delta.recent_done))
        try:
            return self._count(tenant, queue, with_credits, sets, stale, same_epoch)
        except ConditionFailed as refusal:
            if not any(totals.values()):
                return queue_state_of(refusal.item or {}, tenant, queue)
            return self._count(tenant, queue, totals, sets, stale, None)

    def _count(
        self,
        tenant: str,
        queue: str,
        adds: dict[str, int],
        sets: dict[str, Any],
        stale: list[str],
        condition: Condition | None,
    ) -> QueueState | None:
        if not any(adds.values()):
            return None
        try:
            return self._change(tenant, queue, condition, adds=adds, sets=sets, removes=stale, repeatable=False)
        except StoreUnavailable:
            return None

    def get_queue_state(self, tenant: str, queue: str) -> QueueState:
        item = self._calls.get_item(self._names.queue, queue_state_key(tenant, queue))
        return queue_state_of(item or {}, tenant, queue)

    def set_paused(self, tenant: str, queue: str, at: int, by: str) -> QueueState:
        return self._change(tenant, queue, None, sets={"paused": value_of(at), "paused_by": value_of(by)})

    def repair_depth(self, seen: QueueState, surplus: int, now: int) -> bool:
        nothing_returned = counter_is("returned", seen.returned)
        same_epoch = counter_is("epoch", seen.epoch)
        adds, sets = {"depth": -surplus, "epoch": 1}, {"repaired": value_of(now)}
        return self._changed(seen, nothing_returned & same_epoch, adds=adds, sets=sets)

    def set_pace(self, seen: QueueState, pace_at: int) -> bool:
        return self._changed(seen, counter_is("pace", seen.pace_at), sets={"pace": value_of(pace_at)})

    def set_breaker(self, seen: QueueState, target: str, breaker: BreakerState | None) -> bool:
        name, before = BREAKER + target, seen.breakers.get(target)
        as_seen = missing(name) if before is None else equal(name, breaker_text(before))
        if breaker is None:
            return self._changed(seen, as_seen, removes=[name])
        return self._changed(seen, as_seen, sets={name: value_of(breaker_text(breaker))})

    def set_dictionary(self, seen: QueueState, name: str, now: int) -> bool:
        before = dictionary_text(seen.dictionary, seen.reviewed_at)
        as_seen = equal(DICTIONARY, before) if seen.reviewed_at else missing(DICTIONARY)
        return self._changed(seen, as_seen, sets={DICTIONARY: value_of(dictionary_text(name, now))})

    def take_slot(self, tenant: str, queue: str, slot: Slot, now: int) -> bool:
        ran_out = at_most("until", now)
        free = (ran_out | holds_token(slot.token)).or_absent()
        try:
            self._calls.send("put_item", **put(self._names.queue, slot_item(tenant, queue, slot), free).request())
        except ConditionFailed:
            return False
        return True

    def list_slots(self, tenant: str, queue: str) -> list[Slot]:
        return [slot_of(item) for item in self._calls.query_all(self._names.queue, slots_pk(tenant, queue))]

    def free_slot(self, tenant: str, queue: str, slot: Slot) -> None:
        key = slot_key(tenant, queue, slot.number)
        try:
            self._calls.send("delete_item", **delete(self._names.queue, key, holds_token(slot.token)).request())
        except (ConditionFailed, StoreUnavailable):
            return  # it runs out by itself

    def get_sweep_position(self, name: str) -> str:
        item = self._calls.get_item(self._names.queue, sweep_position_key(name))
        return text_in(item or {}, "position")

    def set_sweep_position(self, name: str, position: str) -> None:
        item = sweep_position_item(name, position)
        self._calls.send("put_item", **put(self._names.queue, item, None).request())

    def _changed(self, seen: QueueState, condition: Condition, **changes: Any) -> bool:
        """Change what still stands as it was seen, once: whether it surely happened."""
        try:
            self._change(seen.tenant, seen.queue, condition, repeatable=False, **changes)
        except (ConditionFailed, StoreUnavailable):
            return False
        return True

    def _change(
        self,
        tenant: str,
        queue: str,
        condition: Condition | None,
        *,
        adds: Mapping[str, int] | None = None,
        sets: Mapping[str, Any] | None = None,
        removes: Sequence[str] = (),
        repeatable: bool = True,
    ) -> QueueState:
        amounts = {name: count for name, count in (adds or {}).items() if count}
        key = queue_state_key(tenant, queue)
        write = update(self._names.queue, key, condition, sets=sets or {}, adds=amounts, removes=removes)
        answer = self._calls.send("update_item", repeatable=repeatable, **write.request(), ReturnValues="ALL_NEW")
        return queue_state_of(answer["Attributes"], tenant, queue)


def sweep_position_key(name: str) -> Item:
    return {"pk": {"S": SWEEP}, "sk": {"S": name}}


def sweep_position_item(name: str, position: str) -> Item:
    return {**sweep_position_key(name), "position": {"S": position}}


def queue_state_key(tenant: str, queue: str) -> Item:
    return {"pk": {"S": f"C#{tenant}#{queue}"}, "sk": {"S": STATE}}


def queue_state_of(item: Mapping[str, Any], tenant: str, queue: str) -> QueueState:
    """Counters by minute or day are attributes of their own, named by a letter and the number: see `counter`."""
    counted: dict[str, dict[int, int]] = {kind: {} for kind in "gaed"}
    for name, value in item.items():
        if name[0] in counted and name[1:].isdigit():
            counted[name[0]][int(name[1:])] = int(value["N"])
    reviewed_at, _, dictionary = text_in(item, DICTIONARY).partition("/")
    return QueueState(
        tenant,
        queue,
        depth=int_in(item, "depth"),
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
        moved_at=int_in(item, "moved"),
        recent_done=tuple(filter(None, text_in(item, "recent").split(","))),
        breakers={
            name.removeprefix(BREAKER): BreakerState(*map(int, value["S"].split("/")))
            for name, value in item.items()
            if name.startswith(BREAKER)
        },
        listed=LISTED in item,
        dictionary=dictionary,
        reviewed_at=int(reviewed_at or 0) * MINUTE,
    )


def breaker_text(breaker: BreakerState) -> str:
    return f"{breaker.until}/{breaker.level}/{breaker.since}"


def dictionary_text(name: str, reviewed_at: int) -> str:
    return f"{reviewed_at // MINUTE}/{name}"


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
