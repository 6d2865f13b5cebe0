"""The store in one process's memory: for tests, and for trying the queue with no infrastructure at all.

It ends with its process. Each method takes one lock, so that it is one atomic step as the interface asks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from millrace.model.clock import MINUTE, Clock, system_clock
from millrace.model.cursor import Page
from millrace.model.errors import BodyLost
from millrace.model.keys import WITHDRAWN
from millrace.model.message import (
    SEALED,
    DeadLetter,
    Entry,
    Message,
    MessageLocation,
    Place,
    Records,
    Result,
    WorkflowState,
)
from millrace.model.queue_samples import SAMPLE_MS, QueueSample
from millrace.model.queue_state import BreakerState, CounterDelta, CreditRequest, QueueState, Slot
from millrace.model.transaction import AppWrite, check_together
from millrace.model.webhook_problems import WebhookProblem
from millrace.stores.interface import (
    APPLIED,
    AcceptStep,
    EndStep,
    Erasure,
    Full,
    Refused,
    StepRefused,
    TooLate,
    TransactResult,
    TransactStep,
    WriteResult,
    WritesRefused,
)
from millrace.stores.memory.app_tables import AppTables
from millrace.stores.memory.dictionaries import MemoryDictionaries
from millrace.stores.scanned import EVERY_MESSAGE, ScanFilter, ScannedPage, scanned

#: DynamoDB knows a transaction by its request token for so long.
REQUEST_TOKEN_MS = 10 * MINUTE


class MemoryBlobs:
    """Large bodies in memory."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put(self, key: str, data: bytes) -> None:
        self.objects[key] = data

    def get(self, key: str) -> bytes:
        try:
            return self.objects[key]
        except KeyError:
            raise BodyLost(f"There is no blob {key!r}.") from None

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)


def _added(counts: Any, key: int, count: int) -> dict[int, int]:
    total = dict(counts)
    if count:
        total[key] = total.get(key, 0) + count
    return total


class MemoryStore(MemoryDictionaries):
    """Both tables as dictionaries behind one lock."""

    def __init__(self, clock: Clock = system_clock) -> None:
        super().__init__()
        self._lock = threading.RLock()
        self._clock = clock
        self.request_tokens: dict[str, int] = {}  #: of transactions that happened, with when they are forgotten
        self.app_tables = AppTables(self._lock)  #: of the app, for transactions that both take part in
        self.entries: dict[Place, Entry] = {}
        self.messages: dict[str, Message] = {}
        self.location: dict[str, MessageLocation] = {}
        self.results: dict[str, Result] = {}
        self.workflow_state: dict[str, WorkflowState] = {}
        self.states: dict[tuple[str, str], QueueState] = {}
        self.numbers: dict[tuple[str, str, int], int] = {}  #: the last order number of each shard
        self.slots: dict[tuple[str, str, int], Slot] = {}
        self.sweep_positions: dict[str, str] = {}
        self.samples: dict[tuple[str, str], dict[int, QueueSample]] = {}
        self.webhook_problems: dict[str, WebhookProblem] = {}
        self.dead_letters: dict[tuple[str, str], dict[str, DeadLetter]] = {}

    # -- enqueue ------------------------------------------------------------------------------------------------
    def put_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        return [self._put_entry(entry) for entry in entries]

    def _put_entry(self, entry: Entry) -> WriteResult[Entry]:
        with self._lock:
            current = self.entries.setdefault(entry.place, entry)
            return APPLIED if current.nonce == entry.nonce else Refused(current)

    def put_messages(self, messages: Sequence[Message]) -> list[WriteResult[Message]]:
        return [self._put_message(message) for message in messages]

    def _put_message(self, message: Message) -> WriteResult[Message]:
        with self._lock:
            current = self.messages.setdefault(message.id, message)
            return APPLIED if current.nonce == message.nonce else Refused(current)

    def replace_message(self, message: Message, old_nonce: str) -> WriteResult[Message]:
        with self._lock:
            current = self.messages.get(message.id)
            if current is None or current.nonce not in (old_nonce, message.nonce):
                return Refused(current)
            entry = self.entries.get(message.place)
            if current.nonce == old_nonce and (entry is None or entry.nonce != message.nonce):
                return Refused(None)
            self.messages[message.id] = message
            return APPLIED

    def withdraw_entry(self, entry: Entry, marker: Message) -> WriteResult[Entry]:
        with self._lock:
            message = self.messages.get(entry.id)
            if message is not None and message.place.sk != WITHDRAWN:
                return Refused(self.entries.get(entry.place))

            def withdraw(current: Entry) -> None:
                del self.entries[current.place]
                self.messages[marker.id] = marker

            return self._fenced(entry.place, entry.token, withdraw)

    def drop_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        return [self._drop_entry(entry) for entry in entries]

    def _drop_entry(self, entry: Entry) -> WriteResult[Entry]:
        with self._lock:
            current = self.entries.get(entry.place)
            if current is not None and (current.nonce != entry.nonce or current.version != entry.version):
                return Refused(current)
            self.entries.pop(entry.place, None)
            return APPLIED

    # -- claim --------------------------------------------------------------------------------------------------
    def read_lane(self, pk: str, after: str, upto: str, limit: int) -> Page[Entry]:
        with self._lock:
            found = sorted(sk for key, sk in self.entries if key == pk and after < sk <= upto)
            items = tuple(self.entries[Place(pk, sk)] for sk in found[:limit])
            return Page(items, items[-1].place.sk if len(found) > limit else None)

    def get_entry(self, place: Place) -> Entry | None:
        with self._lock:
            return self.entries.get(place)

    def get_messages(self, ids: Sequence[str]) -> dict[str, Message]:
        with self._lock:
            found = {id_: self.messages[id_] for id_ in ids if id_ in self.messages}
            return {id_: message for id_, message in found.items() if message.place.sk != WITHDRAWN}

    def claim_entries(self, claimed: Sequence[Entry], now: int) -> list[WriteResult[Entry]]:
        return [self._claim_entry(entry, now) for entry in claimed]

    def _claim_entry(self, entry: Entry, now: int) -> WriteResult[Entry]:
        with self._lock:
            current = self.entries.get(entry.place)
            if current is not None and current.token == entry.token:
                return APPLIED
            if current is None or current.version != entry.version - 1 or current.until > now:
                return Refused(current)
            # As much as a claim changes; the rest of an entry never does.
            self.entries[entry.place] = replace(
                current,
                version=entry.version,
                attempts=entry.attempts,
                deliveries=entry.deliveries,
                due=entry.due,
                token=entry.token,
                until=entry.until,
                since=entry.since,
                owner=entry.owner,
            )
            return APPLIED

    # -- finish -------------------------------------------------------------------------------------------------
    def _fenced(self, place: Place, token: str, change: Callable[[Entry], None]) -> WriteResult[Entry]:
        """Change the entry only while it holds this token."""
        with self._lock:
            current = self.entries.get(place)
            if current is None or current.token != token:
                return Refused(current)
            change(current)
            return APPLIED

    def end_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        return [self._fenced(e.place, e.token, lambda e: self.entries.__delitem__(e.place)) for e in entries]

    def end_together(self, entries: Sequence[Entry], request_token: str) -> WriteResult[Entry]:
        with self._lock:
            self._forget_tokens()
            if request_token in self.request_tokens:
                return APPLIED
            found = [self.entries.get(entry.place) for entry in entries]
            if [current and current.token for current in found] != [entry.token for entry in entries]:
                return Refused(None)
            for entry in entries:
                del self.entries[entry.place]
            self.request_tokens[request_token] = self._clock() + REQUEST_TOKEN_MS
            return APPLIED

    def hold_entries(self, entries: Sequence[Entry], tokens: Sequence[str]) -> list[WriteResult[Entry]]:
        def hold(held: Entry) -> Callable[[Entry], None]:
            return lambda current: self.entries.__setitem__(
                current.place,
                replace(current, due=held.due, token=held.token, until=held.until, since=held.since, owner=held.owner),
            )

        return [self._fenced(entry.place, token, hold(entry)) for entry, token in zip(entries, tokens, strict=True)]

    def move_entry(self, old: Entry, new: Entry, location: MessageLocation) -> WriteResult[Entry]:
        def move(current: Entry) -> None:
            del self.entries[current.place]
            self.entries[new.place] = new
            self.location[new.id] = location

        return self._fenced(old.place, old.token, move)

    def bury_entry(self, old: Entry, location: MessageLocation, dead_letter: DeadLetter | None) -> WriteResult[Entry]:
        def bury(current: Entry) -> None:
            del self.entries[current.place]
            self.location[old.id] = location
            if dead_letter is not None:
                owner = (dead_letter.message.tenant, dead_letter.message.queue)
                self.dead_letters.setdefault(owner, {})[dead_letter.sk] = dead_letter

        return self._fenced(old.place, old.token, bury)

    def erase_message(self, erasure: Erasure) -> WriteResult[Entry]:
        husk, entry = erasure.husk, erasure.entry
        with self._lock:
            current = self.entries.get(entry.place) if entry else None
            if entry and (current is None or current.token != entry.token):
                return Refused(current)
            if current and erasure.idle_at and current.live(erasure.idle_at):
                return Refused(current)
            message = self.messages.get(husk.id)
            if message is None or message.nonce != husk.nonce:
                return Refused(current)
            if entry:
                del self.entries[entry.place]
            self.messages[husk.id] = husk
            if erasure.trace:
                self.location[husk.id] = erasure.trace
            if erasure.workflow_state:
                self.workflow_state.pop(husk.id, None)
            if erasure.seal:
                self.results[husk.id] = erasure.seal
            elif erasure.result:
                self.results.pop(husk.id, None)
            return APPLIED

    def drop_records(self, message_id: str, nonce: str) -> None:
        kinds: tuple[dict[str, Any], ...] = (self.location, self.results, self.workflow_state)
        with self._lock:
            for kind in kinds:
                if message_id in kind and kind[message_id].nonce == nonce:
                    del kind[message_id]

    def put_results(self, results: Sequence[Result]) -> None:
        with self._lock:
            for result in results:
                current = self.results.get(result.id)
                anothers_seal = current and current.finished_at == SEALED and current.nonce != result.nonce
                if current is None or anothers_seal or current.finished_at <= result.finished_at:
                    self.results[result.id] = result

    def put_workflow_state(self, entry: Entry, workflow_state: WorkflowState, now: int) -> WriteResult[WorkflowState]:
        with self._lock:
            held = self.entries.get(entry.place)
            if held is None or held.token != entry.token or not held.live(now):
                return Refused(None)
            current = self.workflow_state.get(entry.id, WorkflowState(b"", 0))
            if current.nonce != workflow_state.nonce:
                current = WorkflowState(b"", 0)
            if current == workflow_state:
                return APPLIED
            if current.version != workflow_state.version - 1:
                return Refused(current)
            self.workflow_state[entry.id] = workflow_state
            return APPLIED

    # -- transactions with an app's own writes ------------------------------------------------------------------
    def transact(
        self,
        steps: Sequence[TransactStep],
        writes: Sequence[AppWrite],
        request_token: str,
        in_time: Callable[[], bool] = lambda: True,
    ) -> TransactResult:
        own_items = sum(1 if isinstance(step, AcceptStep) and step.entry is None else 2 for step in steps)
        check_together(writes, own_items, (), "")
        with self._lock:
            self._forget_tokens()
            if request_token in self.request_tokens or any(map(self._happened, steps)):
                return APPLIED
            if not in_time():
                return TooLate()
            for position, step in enumerate(steps):
                refused = self._step_refused(position, step)
                if refused:
                    return refused
            reasons = self.app_tables.refusals(writes)
            if reasons:
                return WritesRefused(reasons)
            for step in steps:
                self._make(step)
            self.app_tables.apply(writes)
            self.request_tokens[request_token] = self._clock() + REQUEST_TOKEN_MS
            return APPLIED

    def _forget_tokens(self) -> None:
        """The oldest first: they are in the order in which they came."""
        now = self._clock()
        while self.request_tokens and next(iter(self.request_tokens.values())) <= now:
            del self.request_tokens[next(iter(self.request_tokens))]

    def _happened(self, step: TransactStep) -> bool:
        if isinstance(step, EndStep):
            result = self.results.get(step.result.id)
            return result is not None and (result.nonce, result.version) == (step.result.nonce, step.result.version)
        message = self.messages.get(step.message.id)
        return message is not None and message.nonce == step.message.nonce

    def _step_refused(self, position: int, step: TransactStep) -> StepRefused | None:
        if isinstance(step, EndStep):
            entry = self.entries.get(step.entry.place)
            return None if entry and entry.token == step.entry.token else StepRefused(position, entry=entry)
        message = self.messages.get(step.message.id)
        as_expected = (message.nonce if message else "") == step.replaces
        return None if as_expected else StepRefused(position, message=message)

    def _make(self, step: TransactStep) -> None:
        if isinstance(step, EndStep):
            del self.entries[step.entry.place]
            self.results[step.result.id] = step.result
            return
        self.messages[step.message.id] = step.message
        if step.entry is not None:
            self.entries[step.entry.place] = step.entry

    # -- one message by id --------------------------------------------------------------------------------------
    def get_records(self, message_id: str) -> Records:
        with self._lock:
            message = self.messages.get(message_id)
            return Records(
                message if message and message.place.sk != WITHDRAWN else None,
                self.location.get(message_id),
                self.results.get(message_id),
                self.workflow_state.get(message_id),
            )

    def get_location(self, message_id: str) -> MessageLocation | None:
        with self._lock:
            return self.location.get(message_id)

    def get_locations(self, ids: Sequence[str]) -> dict[str, MessageLocation]:
        with self._lock:
            return {id_: self.location[id_] for id_ in ids if id_ in self.location}

    def get_entries(self, places: Sequence[Place]) -> dict[Place, Entry]:
        with self._lock:
            return {place: self.entries[place] for place in places if place in self.entries}

    def scan_messages(self, tenant: str, after: str, limit: int, only: ScanFilter = EVERY_MESSAGE) -> ScannedPage:
        with self._lock:
            ids = sorted(id_ for id_ in self.messages if id_ > after)
            looked_at = [self.messages[id_] for id_ in ids[:limit]]
        found = tuple(scanned(one, one.id) for one in looked_at if one.tenant == tenant and only.matches(one))
        return ScannedPage(found, ids[limit - 1] if len(ids) > limit else None, float(len(looked_at)))

    # -- book-keeping -------------------------------------------------------------------------------------------
    def get_queue_state(self, tenant: str, queue: str) -> QueueState:
        with self._lock:
            return self.states.get((tenant, queue), QueueState(tenant, queue))

    def list_all_queue_states(self) -> list[QueueState]:
        with self._lock:
            return [state for _, state in sorted(self.states.items()) if state.listed]

    def register(self, tenant: str, queue: str) -> None:
        with self._lock:
            self._keep(replace(self.get_queue_state(tenant, queue), listed=True), ())

    def unregister(self, seen: QueueState) -> bool:
        with self._lock:
            state = self.get_queue_state(seen.tenant, seen.queue)
            if not state.listed or state.depth or state.moved_at != seen.moved_at:
                return False
            self._keep(replace(state, listed=False), ())
            return True

    def take_numbers(self, tenant: str, queue: str, counts: Mapping[int, int]) -> dict[int, int]:
        with self._lock:
            first = {shard: self.numbers.get((tenant, queue, shard), 0) + 1 for shard in counts}
            for shard, count in counts.items():
                self.numbers[tenant, queue, shard] = first[shard] + count - 1
            return first

    def _keep(self, state: QueueState, stale: tuple[int, ...]) -> QueueState:
        def without_stale(counts: Any) -> dict[int, int]:
            return {minute: count for minute, count in counts.items() if minute not in stale}

        state = replace(
            state,
            grants=without_stale(state.grants),
            arrivals=without_stale(state.arrivals),
            endings=without_stale(state.endings),
        )
        self.states[state.tenant, state.queue] = state
        return state

    def take_credits(self, tenant: str, queue: str, take: CreditRequest) -> QueueState | Full:
        with self._lock:
            state = self.get_queue_state(tenant, queue)
            if take.count and state.depth + take.count > take.max_depth:
                return Full(state)
            taken = replace(
                state,
                depth=state.depth + take.count,
                arrived=state.arrived + take.arrived,
                moved_at=take.now,
                grants=_added(state.grants, take.minute, take.count),
                arrivals=_added(state.arrivals, take.minute, take.arrived),
            )
            return self._keep(taken, take.stale_minutes)

    def settle(self, tenant: str, queue: str, delta: CounterDelta) -> QueueState | None:
        with self._lock:
            state = self.get_queue_state(tenant, queue)
            returned = delta.credits if delta.epoch == state.epoch else 0
            dead_days = state.dead_days
            for day, count in delta.dead.items():
                dead_days = _added(dead_days, day, count)
            settled = replace(
                state,
                depth=state.depth - returned,
                returned=state.returned + returned,
                done=state.done + delta.done,
                failed=state.failed + delta.failed,
                dead=state.dead + sum(count for count in delta.dead.values() if count > 0),
                arrived=state.arrived + delta.arrived,
                moved_at=delta.now,
                recent_done=delta.recent_done or state.recent_done,
                arrivals=_added(state.arrivals, delta.minute, delta.arrived),
                endings=_added(state.endings, delta.minute, delta.done),
                dead_days={day: count for day, count in dead_days.items() if day not in delta.stale_days},
            )
            return self._keep(settled, delta.stale_minutes)

    def set_paused(self, tenant: str, queue: str, at: int, by: str) -> QueueState:
        with self._lock:
            return self._keep(replace(self.get_queue_state(tenant, queue), paused_at=at, paused_by=by), ())

    def repair_depth(self, seen: QueueState, surplus: int, now: int) -> bool:
        with self._lock:
            state = self.get_queue_state(seen.tenant, seen.queue)
            if (state.returned, state.epoch) != (seen.returned, seen.epoch):
                return False
            repaired = replace(state, depth=state.depth - surplus, epoch=state.epoch + 1, repaired_at=now)
            self._keep(repaired, ())
            return True

    def set_pace(self, seen: QueueState, pace_at: int) -> bool:
        with self._lock:
            state = self.get_queue_state(seen.tenant, seen.queue)
            if state.pace_at != seen.pace_at:
                return False
            self._keep(replace(state, pace_at=pace_at), ())
            return True

    def set_breaker(self, seen: QueueState, target: str, breaker: BreakerState | None) -> bool:
        with self._lock:
            state = self.get_queue_state(seen.tenant, seen.queue)
            if state.breakers.get(target) != seen.breakers.get(target):
                return False
            breakers = {name: kept for name, kept in state.breakers.items() if name != target}
            self._keep(replace(state, breakers={**breakers, target: breaker} if breaker else breakers), ())
            return True

    def set_dictionary(self, seen: QueueState, name: str, now: int) -> bool:
        with self._lock:
            state = self.get_queue_state(seen.tenant, seen.queue)
            if (state.dictionary, state.reviewed_at) != (seen.dictionary, seen.reviewed_at):
                return False
            self._keep(replace(state, dictionary=name, reviewed_at=now // MINUTE * MINUTE), ())
            return True

    def take_slot(self, tenant: str, queue: str, slot: Slot, now: int) -> bool:
        with self._lock:
            current = self.slots.get((tenant, queue, slot.number))
            if current is not None and current.until > now and current.token != slot.token:
                return False
            self.slots[tenant, queue, slot.number] = slot
            return True

    def list_slots(self, tenant: str, queue: str) -> list[Slot]:
        with self._lock:
            return [slot for key, slot in sorted(self.slots.items()) if key[:2] == (tenant, queue)]

    def free_slot(self, tenant: str, queue: str, slot: Slot) -> None:
        with self._lock:
            current = self.slots.get((tenant, queue, slot.number))
            if current is not None and current.token == slot.token:
                del self.slots[tenant, queue, slot.number]

    def get_sweep_position(self, name: str) -> str:
        with self._lock:
            return self.sweep_positions.get(name, "")

    def set_sweep_position(self, name: str, position: str) -> None:
        with self._lock:
            self.sweep_positions[name] = position

    def put_sample(self, tenant: str, queue: str, sample: QueueSample) -> None:
        with self._lock:
            self.samples.setdefault((tenant, queue), {})[sample.at // SAMPLE_MS] = sample

    def read_samples(self, tenant: str, queue: str, since: int) -> list[QueueSample]:
        with self._lock:
            kept = self.samples.get((tenant, queue), {})
            return [sample for _, sample in sorted(kept.items()) if sample.at >= since]

    def put_webhook_problem(self, problem: WebhookProblem) -> None:
        with self._lock:
            self.webhook_problems[problem.webhook] = problem

    def delete_webhook_problem(self, webhook: str) -> None:
        with self._lock:
            self.webhook_problems.pop(webhook, None)

    def read_webhook_problems(self) -> list[WebhookProblem]:
        with self._lock:
            return [problem for _, problem in sorted(self.webhook_problems.items())]

    # -- dead letters -------------------------------------------------------------------------------------------
    def read_dead_letters(
        self, tenant: str, queue: str, after: str, upto: str, limit: int, *, newest_first: bool = False
    ) -> Page[DeadLetter]:
        with self._lock:
            dead_letters = self.dead_letters.get((tenant, queue), {})
            found = sorted((sk for sk in dead_letters if after < sk < upto), reverse=newest_first)
            items = tuple(dead_letters[sk] for sk in found[:limit])
            return Page(items, items[-1].sk if len(found) > limit else None)

    def get_dead_letter(self, tenant: str, queue: str, sk: str) -> DeadLetter | None:
        with self._lock:
            return self.dead_letters.get((tenant, queue), {}).get(sk)

    def mark_replayed(self, dead_letter: DeadLetter) -> bool:
        with self._lock:
            dead_letters = self.dead_letters.get((dead_letter.message.tenant, dead_letter.message.queue), {})
            current = dead_letters.get(dead_letter.sk)
            if current is None:
                return False
            dead_letters[dead_letter.sk] = replace(
                current,
                replayed_at=dead_letter.replayed_at,
                replayed_as=dead_letter.replayed_as,
                replay_job=dead_letter.replay_job,
            )
            return not current.replayed_at

    def delete_dead_letter(self, dead_letter: DeadLetter) -> bool:
        with self._lock:
            dead_letters = self.dead_letters.get((dead_letter.message.tenant, dead_letter.message.queue), {})
            current = dead_letters.get(dead_letter.sk)
            if current is None or current.replayed_at != dead_letter.replayed_at:
                return False
            del dead_letters[dead_letter.sk]
            return True
