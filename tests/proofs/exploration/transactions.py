"""Transactions both ways and steps once, through every order, crash and lost answer; and their guards taken out.

What an app's own table says is held against what became of the messages: charged if and only if done, an order there
if and only if its job was accepted, a kept step never run again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

import pytest

import millrace.engine.transact
import millrace.model.journal
from millrace.engine.claim import Claim, claim
from millrace.engine.finish import RunFailure, ack, follow_up, nack
from millrace.engine.queue import Queue
from millrace.engine.transact import Enqueuing, OnDuplicate, accept_with, end_with
from millrace.model.clock import MINUTE
from millrace.model.errors import DuplicateMessage, MillraceError, TransactionRefused
from millrace.model.journal import STEPS, once
from millrace.model.message import Draft
from millrace.model.queue_spec import Idempotency, Ordering, Retention
from millrace.model.queue_state import COMMIT_WITHIN_MS, GRANT_MINUTES, SKEW_MS
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import APPLIED, AcceptStep, Applied, EndStep, Store, TooLate, TransactStep
from millrace.stores.memory.queue import REQUEST_TOKEN_MS, MemoryStore
from millrace.worker.context import ClaimState
from tests.app_table import Orders, writes
from tests.proofs.exploration.explorer import Bounds, Run, Scenario
from tests.proofs.exploration.mutants import Mutant
from tests.proofs.exploration.scenarios import LEASE_MS, World

Actors = list[tuple[str, Callable[[], None]]]


class TransactWorld(World):
    """A world with a table of an app's own: an order for each message, by its body."""

    def __init__(self, run: Run, bounds: Bounds, store: Store | None = None, **settings: Any) -> None:
        super().__init__(run, bounds, store, **settings)
        client = self.real._calls.client if isinstance(self.real, DynamoStore) else None
        self.orders = Orders(self.real, self.tenant, client)
        self.order_of: dict[str, int] = {}  # message id → its order
        self.callers: Counter[str] = Counter()  # acceptances by their source
        self.kept: set[str] = set()  # messages whose step is in the journal
        self.effects: Counter[str] = Counter()  # runs of a step, by its message
        self._endings: set[tuple[str, int]] = set()
        self.new = False  #: an order may not be there yet
        self.steps = False  #: handlers have a step once, in place of writes

    def _watch(self, name: str, arguments: tuple[Any, ...], answer: Any) -> None:
        if name == "transact" and isinstance(answer, Applied):
            for step in arguments[0]:
                self._saw(step)
        elif name == "put_workflow_state" and isinstance(answer, Applied):
            entry, state = arguments[0], arguments[1]
            assert entry.version == self.versions[f"{entry.id}/{entry.nonce}"], "a stale claim wrote the journal"
            if STEPS.encode() in state.content:
                self.kept.add(entry.id)
        super()._watch(name, arguments, answer)

    def _saw(self, step: TransactStep) -> None:
        if isinstance(step, EndStep):
            entry = step.entry
            assert entry.version == self.versions[f"{entry.id}/{entry.nonce}"], "a stale claim changed something"
            if (entry.id, entry.version) not in self._endings:
                self._endings.add((entry.id, entry.version))
                self.ended[entry.id, entry.nonce] += 1
        elif self.committed.get(step.message.id) != step.message.nonce:
            before = (step.message.id, self.committed.get(step.message.id, ""))
            assert not before[1] or self.ended[before] or self.buried[before], "replaced before it had ended"
            self.committed[step.message.id] = step.message.nonce
            self.callers[step.message.source] += 1

    # -- actors --
    def charger(self, name: str, limit: int = 1) -> Callable[[], None]:
        """A worker whose handler charges an order with its ack."""
        queue = self.queue()

        def work() -> None:
            with suppress(MillraceError):
                for held in claim(queue, owner=name, limit=limit).claims:
                    self.stage.pause("start of a run")
                    if self.start(queue, held):
                        self.stage.pause("run")
                        self._finish(queue, held)

        return work

    def _finish(self, queue: Queue, held: Claim) -> None:
        number = self.order_of.get(held.entry.id)
        if self.steps:
            self._step(queue, held)
            assert ack(queue, [held.entry]) == [None] or self.stage.current
        elif number is None:
            ack(queue, [held.entry], [b"r"])
        else:
            staged = writes(self.orders.put(number) if self.new else self.orders.charge(number))
            try:
                follow_up(queue, [end_with(queue, held.entry, staged, b"r")])
            except TransactionRefused as refused:
                nack(queue, held.entry, held.message, RunFailure("TransactionRefused", str(refused)), lost=held.lost)

    def _step(self, queue: Queue, held: Claim) -> None:
        def effect() -> str:
            assert held.entry.id not in self.kept, "a step ran again that the journal has"
            self.effects[held.entry.id] += 1
            self.stage.pause("effect of a run")
            return "charged"

        assert once(ClaimState(queue, held.entry), "charge", effect) == "charged"
        assert self.effects[held.entry.id], "a step is kept that never ran"

    def stepper(self, name: str) -> Callable[[], None]:
        """A worker whose handler has one step, once."""
        self.steps = True
        return self.charger(name)

    def caller(
        self,
        number: int,
        key: str | None = None,
        *,
        skip: bool = False,
        fails: bool = False,
        process: Queue | None = None,
    ) -> Callable[[], None]:
        """Enqueues in its own transaction, with a charge of order `number`."""
        queue = process or self.queue()
        source = f"caller-{number}"

        def work() -> None:
            draft = Draft(b"x", idempotency_key=key, key="k", source=source)
            wanted = Enqueuing(queue, draft, on_duplicate=OnDuplicate.SKIP if skip else OnDuplicate.FAIL)
            items = [self.orders.charge(number), *([self.orders.check(99)] if fails else [])]
            before = frozenset(self.accepted)
            try:
                (receipt,) = accept_with(queue.runtime, [wanted], writes(*items))
            except DuplicateMessage:
                assert self.orders.charges(number) is None, "called a duplicate, and was written"
                return
            except TransactionRefused:
                assert fails
                assert not self.callers[source], "called refused, and was written"
                return
            except MillraceError as error:
                if "nothing was written" in str(error):
                    assert self.orders.charges(number) is None, "called unwritten, and was written"
                return
            self.accepted.add(receipt.message_id)
            self.sent_after.setdefault(receipt.message_id, before)
            assert self.orders.charges(number) == 1, "accepted without the caller's own writes"

        self.after_play.append(lambda: self._assert_both_or_neither(number, source, skip=skip))
        return work

    def _assert_both_or_neither(self, number: int, source: str, *, skip: bool) -> None:
        written = self.orders.charges(number)
        assert written in (None, 1), f"the caller's own write was made {written} times"
        if not skip:
            assert self.callers[source] == (written or 0), "one was written without the other"

    # -- afterwards --
    def settle_all(self) -> None:
        """As `settle`, with what the app's own table must say in the end."""
        queue = self.queue()
        self.now += LEASE_MS
        for _ in range(10):
            for held in claim(queue, owner="last", limit=10).claims:
                if self.start(queue, held):
                    self._finish(queue, held)
            self.now += LEASE_MS
        super().settle()
        charged: Counter[int] = Counter()
        for message_id, number in self.order_of.items():
            charged[number] += self.ended[message_id, self.committed[message_id]]
        for number, times in charged.items():
            assert (self.orders.charges(number) or 0) == times, "charged is not the same as done"
        for message_id in self.effects:
            assert self.effects[message_id] >= 1


def _scenario(prepare: Callable[[TransactWorld], Actors], **settings: Any) -> Scenario:
    def scenario(run: Run, bounds: Bounds, store: Store | None = None) -> None:
        world = TransactWorld(run, bounds, store, **settings)
        world.stage.play(prepare(world))
        for check in world.after_play:
            check()
        world.settle_all()

    return scenario


def _prepared(world: TransactWorld, *numbers: int) -> None:
    for number in numbers:
        (receipt,) = accept_with(world.queue().runtime, [Enqueuing(world.queue(), Draft(b"x", key="k"))], ())
        world.sent_after[receipt.message_id] = frozenset(world.accepted)
        world.accepted.add(receipt.message_id)
        world.order_of[receipt.message_id] = number


def _taken_over(world: TransactWorld) -> Actors:
    _prepared(world, 1)
    return [("slow", world.charger("slow")), ("time", world.time(LEASE_MS)), ("quick", world.charger("quick"))]


def _same_order(world: TransactWorld) -> Actors:
    """Two messages put the same order, which may not be there yet: one is done, the other fails for that reason."""
    world.new = True
    _prepared(world, 1, 1)
    return [("one", world.charger("one")), ("time", world.time(LEASE_MS)), ("two", world.charger("two"))]


def _chargers_in_order(world: TransactWorld) -> Actors:
    _prepared(world, 1, 2)
    return [
        ("one", world.charger("one", limit=2)),
        ("time", world.time(LEASE_MS)),
        ("two", world.charger("two", limit=2)),
    ]


def _callers_of_one_key(world: TransactWorld) -> Actors:
    return [
        ("caller A", world.caller(1, "k")),
        ("caller B", world.caller(2, "k", skip=True)),
        ("worker", world.worker("w")),
        ("sender", world.sender("k")),
    ]


def _callers_after_the_window(world: TransactWorld) -> Actors:
    world.caller(1, "k")()
    world.now += 2_000
    return [
        ("caller A", world.caller(2, "k")),
        ("worker", world.worker("w", fails=True)),
        ("caller B", world.caller(3, "k")),
        ("other", world.worker("o")),
    ]


def _callers_at_a_full_queue(world: TransactWorld) -> Actors:
    """One process that calls three times, the second in vain, beside another."""
    queue = world.queue()
    calls = [world.caller(1, process=queue), world.caller(2, fails=True, process=queue), world.caller(3, process=queue)]

    def in_turn() -> None:
        for call in calls:
            call()

    return [("caller A", in_turn), ("caller B", world.caller(4)), ("worker", world.worker("w"))]


def _caller_asleep(world: TransactWorld) -> Actors:
    """A caller sleeps between its credit and its transaction; the sweep finds the credit lost meanwhile."""
    return [
        ("caller", world.caller(1)),
        ("time", world.time(GRANT_MINUTES * MINUTE + COMMIT_WITHIN_MS + SKEW_MS)),
        ("sweep", world.sweeper()),
        ("sender", world.sender(None)),
    ]


def _caller_unheard(world: TransactWorld) -> Actors:
    """All of its messages are duplicates; no answer comes to the rest, and time goes by before the next try."""
    world.sender("k")()
    return [("caller", world.caller(1, "k", skip=True)), ("time", world.time(REQUEST_TOKEN_MS))]


def _callers_in_order(world: TransactWorld) -> Actors:
    return [
        ("caller A", world.caller(1)),
        ("sender", world.sender(None)),
        ("worker", world.worker("w", limit=2)),
        ("caller B", world.caller(2)),
    ]


def _steps(world: TransactWorld) -> Actors:
    _prepared(world, 1)
    world.order_of.clear()
    return [("slow", world.stepper("slow")), ("time", world.time(LEASE_MS)), ("quick", world.stepper("quick"))]


TRANSACTIONS: dict[str, Scenario] = {
    "an ack with writes under takeover": _scenario(_taken_over),
    "an ack with a condition of its own": _scenario(_same_order),
    "fifo acks with writes": _scenario(_chargers_in_order, ordering=Ordering.FIFO),
    "callers and a sender of one key": _scenario(_callers_of_one_key),
    "callers of a key after its window": _scenario(
        _callers_after_the_window, idempotency=Idempotency(window_seconds=1)
    ),
    "callers at a full queue": _scenario(_callers_at_a_full_queue, retention=Retention(max_depth=2)),
    "a caller asleep with its credit": _scenario(_caller_asleep),
    "a caller unheard for long": _scenario(_caller_unheard),
    "per_key while callers enqueue": _scenario(_callers_in_order, ordering=Ordering.PER_KEY),
    "a step once under takeover": _scenario(_steps),
}


# -- guards taken out ------------------------------------------------------------------------------------------------


def _ends_without_its_token(patch: pytest.MonkeyPatch) -> None:
    refused = MemoryStore._step_refused

    def unfenced(self: MemoryStore, position: int, step: TransactStep) -> Any:
        return None if isinstance(step, EndStep) and step.entry.place in self.entries else refused(self, position, step)

    patch.setattr(MemoryStore, "_step_refused", unfenced)


def _another_ending_is_ours(patch: pytest.MonkeyPatch) -> None:
    happened = MemoryStore._happened

    def by_nonce(self: MemoryStore, step: TransactStep) -> bool:
        if isinstance(step, EndStep):
            return step.result.id in self.results
        return happened(self, step)

    patch.setattr(MemoryStore, "_happened", by_nonce)


def _writes_without_the_steps(patch: pytest.MonkeyPatch) -> None:
    transact = MemoryStore.transact

    def eager(self: MemoryStore, steps: Sequence[TransactStep], written: Any, *rest: Any) -> Any:
        if not self.app_tables.refusals(written):
            self.app_tables.apply(written)
            return transact(self, steps, (), *rest)
        return transact(self, steps, written, *rest)

    patch.setattr(MemoryStore, "transact", eager)


def _steps_without_the_writes(patch: pytest.MonkeyPatch) -> None:
    transact = MemoryStore.transact

    def careless(self: MemoryStore, steps: Sequence[TransactStep], written: Any, *rest: Any) -> Any:
        return transact(self, steps, () if self.app_tables.refusals(written) else written, *rest)

    patch.setattr(MemoryStore, "transact", careless)


def _lost_answers_are_not_recognised(patch: pytest.MonkeyPatch) -> None:
    _request_tokens_are_forgotten(patch)  # as they are in ten minutes
    patch.setattr(MemoryStore, "_happened", lambda _self, _step: False)


class _Forgetful(dict[str, int]):
    def __setitem__(self, _token: str, _until: int) -> None:
        """Nothing is remembered."""


def _request_tokens_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    made = MemoryStore.__init__

    def forgetful(self: MemoryStore, *given: Any) -> None:
        made(self, *given)
        self.request_tokens = _Forgetful()

    patch.setattr(MemoryStore, "__init__", forgetful)


def _ack_lost_answers_are_not_recognised(patch: pytest.MonkeyPatch) -> None:
    """A repeat of an ending that had happened is made again, whatever is there."""

    def blindly(self: MemoryStore, steps: Sequence[TransactStep], written: Any, *_rest: Any) -> Any:
        for step in steps:
            if isinstance(step, EndStep):
                self.entries.pop(step.entry.place, None)
                self.results[step.result.id] = step.result
        self.app_tables.apply(written)
        return APPLIED

    patch.setattr(MemoryStore, "transact", blindly)


def _sends_however_late(patch: pytest.MonkeyPatch) -> None:
    transact = MemoryStore.transact
    patch.setattr(
        MemoryStore,
        "transact",
        lambda self, steps, written, token, _in_time=None: transact(self, steps, written, token),
    )


def _too_late_is_unwritten(patch: pytest.MonkeyPatch) -> None:
    """A try that is not sent any more speaks for an earlier one without an answer."""
    send = millrace.engine.transact._send

    def hasty(store: Store, *given: Any) -> Any:
        answers: list[Any] = []

        class Noting:
            def transact(self, *rest: Any) -> Any:
                answers.append(store.transact(*rest))
                return answers[-1]

        outcome = send(cast("Store", Noting()), *given)
        return answers[-1] if isinstance(answers[-1], TooLate) else outcome

    patch.setattr(millrace.engine.transact, "_send", hasty)


def _gives_back_what_may_be_spent(patch: pytest.MonkeyPatch) -> None:
    """Without an answer the depth is given back, though the message may be there."""
    commit = millrace.engine.transact._commit

    def hasty(runtime: Any, parts: Any, *rest: Any) -> Any:
        outcome = commit(runtime, parts, *rest)
        if not isinstance(outcome, Applied):
            millrace.engine.transact._refund(parts)
        return outcome

    patch.setattr(millrace.engine.transact, "_commit", hasty)
    patch.setattr(millrace.engine.transact, "TRIES", 1)


def _takes_the_place_of_what_is_queued(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(millrace.engine.transact, "still_standing", lambda *_given: None)


def _a_message_over_another(patch: pytest.MonkeyPatch) -> None:
    refused = MemoryStore._step_refused

    def overwriting(self: MemoryStore, position: int, step: TransactStep) -> Any:
        return None if isinstance(step, AcceptStep) else refused(self, position, step)

    patch.setattr(MemoryStore, "_step_refused", overwriting)


def _journal_is_not_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClaimState, "steps", lambda _self: {})


def _journal_without_the_claim(patch: pytest.MonkeyPatch) -> None:
    def put(self: MemoryStore, entry: Any, workflow_state: Any, _now: int) -> Any:
        self.workflow_state[entry.id] = workflow_state
        return APPLIED

    patch.setattr(MemoryStore, "put_workflow_state", put)


TRANSACT_MUTANTS: dict[str, Mutant] = {
    "a transaction ends without its token": Mutant(
        "the claim's token in the transaction", "an ack with writes under takeover", _ends_without_its_token
    ),
    "another claim's ending is ours": Mutant(
        "the version in the result", "an ack with writes under takeover", _another_ending_is_ours
    ),
    "the writes without the ending": Mutant(
        "all or nothing: a stale claim writes nothing", "an ack with writes under takeover", _writes_without_the_steps
    ),
    "the ending without the writes": Mutant(
        "all or nothing: a refused write ends nothing", "an ack with a condition of its own", _steps_without_the_writes
    ),
    "a lost answer of an ack is repeated blindly": Mutant(
        "recognising one's own ending", "an ack with writes under takeover", _ack_lost_answers_are_not_recognised
    ),
    "a lost answer of an enqueue is not recognised": Mutant(
        "recognising one's own message", "callers and a sender of one key", _lost_answers_are_not_recognised
    ),
    "request tokens are forgotten": Mutant(
        "the request token, where all messages were skipped",
        "callers and a sender of one key",
        _request_tokens_are_forgotten,
    ),
    "a transaction is sent however late": Mutant(
        "the time for a credit to be spent", "a caller asleep with its credit", _sends_however_late
    ),
    "too late is unwritten": Mutant(
        "what got no answer stays unknown", "a caller unheard for long", _too_late_is_unwritten
    ),
    "depth is given back without an answer": Mutant(
        "what may be spent is not given back", "callers at a full queue", _gives_back_what_may_be_spent
    ),
    "a queued message is replaced by a transaction": Mutant(
        "a queued message is a duplicate", "callers of a key after its window", _takes_the_place_of_what_is_queued
    ),
    "a message over another": Mutant(
        "the condition of the message", "callers and a sender of one key", _a_message_over_another
    ),
    "the journal is not read": Mutant("a kept step is not run", "a step once under takeover", _journal_is_not_read),
    "the journal without the claim": Mutant(
        "the claim in the journal's write", "a step once under takeover", _journal_without_the_claim
    ),
}
