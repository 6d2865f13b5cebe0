"""What the explorer runs: senders, workers, a sweep, an operator and time over one store, and what must hold.

After every schedule the play goes on without trouble until nothing is left; then each accepted message must have
ended exactly once.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from itertools import takewhile
from typing import Any

from millrace.admission.schedules import enqueue_ticks, tick_message_id
from millrace.definitions import Definitions, QueueDefinition, ScheduleDefinition
from millrace.definitions.model import CatchUp
from millrace.engine.claim import SILENT_MS, Claim, claim
from millrace.engine.dead_letters import list_dead_letters, replay
from millrace.engine.dictionary_review import publish
from millrace.engine.end_in_order import end_in_order
from millrace.engine.enqueue import ORPHAN_GRACE_MS, enqueue, enqueue_all
from millrace.engine.finish import Ended, RunFailure, ack, end, follow_up, nack, release, snooze
from millrace.engine.forget import forget_message
from millrace.engine.operate import cancel_message
from millrace.engine.queue import Queue, Runtime
from millrace.engine.shares import ALL_TURNS_MS, TURN_MS
from millrace.engine.status import status
from millrace.engine.sweep import IDLE_MS, is_empty, retire, sweep
from millrace.model.body import INLINE_LIMIT
from millrace.model.clock import MINUTE
from millrace.model.dictionary import USE_MS, Dictionary
from millrace.model.errors import BodyLost, MillraceError
from millrace.model.message import Draft, Entry, Message
from millrace.model.queue_spec import Idempotency, Jitter, Ordering, QueueSpec, Retention, RetryPolicy
from millrace.model.queue_state import COMMIT_WITHIN_MS, GRANT_MINUTES, SKEW_MS, BreakerState, CreditRequest
from millrace.stores.interface import Applied, Store
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.worker.breaker import Breakers
from tests.proofs.exploration.explorer import Bounds, Run, Scenario, Stage, Stepped

LEASE_MS = 5_000
MAX_ATTEMPTS = 2
BROKEN = RunFailure("ValueError", "broken")
TARGET = "http:down"
#: Store calls that change nothing, so that nothing can have broken after them.
READS = ("get_", "list_", "read_")
#: Too large for the table, packed or not.
LARGE = random.Random(17).randbytes(INLINE_LIMIT + 1)
#: What is looked for once everything is erased.
SECRET = b"s3cr3t"
#: Large enough to be packed.
PACKED = b"".join(b'{"number":%d,"word":"queue"},' % number for number in range(40))
_tenants = itertools.count(1)


class World:
    """One schedule's store, clock and history."""

    def __init__(self, run: Run, bounds: Bounds, store: Store | None = None, **settings: Any) -> None:
        self.now = 1_800_000_000_000
        self.real = store or MemoryStore(lambda: self.now)
        listed = settings.pop("listed", True)
        self.stage = Stage(run, bounds)
        self.stage.watch(self._watch)
        self.stage.portrait = self._portrait
        self.store = Stepped(self.real, self.stage)
        self.tenant = f"x{next(_tenants)}"
        self.spec = QueueSpec(
            "Jobs",
            lease_seconds=LEASE_MS / 1_000,
            **{"delivery": RetryPolicy(MAX_ATTEMPTS, 1_000, 1_000, Jitter.NONE), **settings},
        )
        if listed:
            self.real.register(self.tenant, "Jobs")
        self.accepted: set[str] = set()
        self.committed: dict[str, str] = {}  # id → nonce
        self.commits: Counter[str] = Counter()
        self.ended: Counter[tuple[str, str]] = Counter()
        self.ended_by: dict[tuple[str, str], int] = {}  #: the version of the claim
        self.buried: Counter[tuple[str, str]] = Counter()
        self.cancelled: set[tuple[str, str]] = set()
        self.starts: Counter[tuple[str, str]] = Counter()
        self.begun: set[tuple[str, str, int]] = set()  #: claims under which a run has started
        self.versions: dict[str, int] = {}
        self.origins: Counter[str] = Counter()
        self.sent_after: dict[str, frozenset[str]] = {}  # id → what had been accepted when it was sent
        self.blobs = MemoryBlobs()
        self.bodies: set[bytes] = set()  #: all that was sent
        self.result, self.failure = b"r", BROKEN  #: what workers say
        self.probes = 0  #: calls of a target while it is down
        self.after_play: list[Callable[[], None]] = []
        self.late: set[str] = set()  #: nonces of entries that were put too late to be committed
        self._numbers: dict[str, int] = {}

    def queue(self) -> Queue:
        """As a process of its own sees it."""
        blobs = Stepped(self.blobs, self.stage)
        return Runtime(self.store, blobs, clock=lambda: self.now, chance=lambda: 0.1).queue(self.tenant, self.spec)

    def _has_entry(self, message: Message) -> bool:
        entry = self.real.get_entry(message.place)
        return entry is not None and entry.nonce == message.nonce

    def _portrait(self) -> tuple[object, ...]:
        """What is stored, with ids and nonces numbered as they came: two schedules may meet in one state."""
        assert isinstance(self.real, MemoryStore)
        held, numbers = self.real, self._numbers
        entries = [
            (
                place.sk[0],
                numbers.setdefault(entry.id + entry.nonce, len(numbers)),
                entry.version,
                entry.attempts,
                entry.owner,
                entry.until - self.now,
            )
            for place, entry in held.entries.items()
        ]
        messages = [numbers.setdefault(id_ + found.nonce, len(numbers)) for id_, found in held.messages.items()]
        books = [(state.depth, state.epoch) for state in held.states.values()]
        dead = [len(dead_letters) for dead_letters in held.dead_letters.values()]
        told = (len(self.accepted), sum(self.ended.values()), sum(self.starts.values()))
        return (*sorted(entries), *sorted(messages), *books, *dead, *told, len(self.blobs.objects))

    # -- what really happened, whatever its caller was answered --
    def _watch(self, name: str, arguments: tuple[Any, ...], answer: Any) -> None:
        if name == "put_entries":
            for entry, outcome in zip(arguments[0], answer, strict=True):
                if isinstance(outcome, Applied) and self.now - entry.enqueued_at > COMMIT_WITHIN_MS:
                    self.late.add(entry.nonce)
        elif name == "put_messages":
            for message, outcome in zip(arguments[0], answer, strict=True):
                if isinstance(outcome, Applied) and self.committed.get(message.id) != message.nonce:
                    assert self._has_entry(message), "a message was committed without its entry"
                    self._assert_dictionary(message)
                    self.committed[message.id] = message.nonce
                    self.commits[message.id] += 1
                    self.origins[message.origin] += bool(message.origin)
                    assert self.origins[message.origin] <= 1, "one job replayed a dead letter twice"
        elif name == "replace_message" and isinstance(answer, Applied):
            before = (arguments[0].id, self.committed.get(arguments[0].id, ""))
            assert not before[1] or self.ended[before] or self.buried[before], "replaced before it had ended"
            assert self._has_entry(arguments[0]), "a message was committed without its entry"
            self.committed[arguments[0].id] = arguments[0].nonce
            self.commits[arguments[0].id] += 1
        elif name == "end_entries":
            for entry, outcome in zip(arguments[0], answer, strict=True):
                if isinstance(outcome, Applied) and self.committed.get(entry.id) == entry.nonce:
                    self.ended[entry.id, entry.nonce] += 1
                    self.ended_by[entry.id, entry.nonce] = entry.version
        elif name == "end_together" and isinstance(answer, Applied):
            for entry in arguments[0]:
                if self.ended_by.get((entry.id, entry.nonce)) != entry.version:  # else it is a repeat of the same call
                    self.ended[entry.id, entry.nonce] += 1
                    self.ended_by[entry.id, entry.nonce] = entry.version
        elif name == "bury_entry" and isinstance(answer, Applied):
            self.buried[arguments[0].id, arguments[0].nonce] += 1
        elif name == "erase_message" and isinstance(answer, Applied) and arguments[0].entry:
            erased = (arguments[0].entry.id, arguments[0].entry.nonce)
            self.buried[erased] += 1
            self.cancelled.add(erased)
        elif name == "claim_entries":
            for entry, outcome in zip(arguments[0], answer, strict=True):
                if isinstance(outcome, Applied):
                    key = f"{entry.id}/{entry.nonce}"
                    assert entry.version > self.versions.get(key, 0), "a claim's version did not grow"
                    self.versions[key] = entry.version
        if name.startswith(READS):
            return
        self._assert_fenced(name, arguments, answer)
        self._always()

    def _assert_dictionary(self, message: Message) -> None:
        """What a body was packed with is there, and will be for as long as anybody may ask for the body."""
        if message.body.dictionary:
            kept = self.real.get_dictionary(self.tenant, "Jobs", message.body.dictionary)
            assert kept is not None, "a body was packed with a dictionary that is not kept"
            assert message.received_at < kept.until, "a body was packed with a dictionary after its last use"

    def _assert_fenced(self, name: str, arguments: tuple[Any, ...], answer: Any) -> None:
        """No write under a claim that is not the newest had any effect."""
        if name in ("end_entries", "hold_entries"):
            written = [(entry, outcome) for entry, outcome in zip(arguments[0], answer, strict=True)]
        elif name == "end_together":
            written = [(entry, answer) for entry in arguments[0]]
        elif name in ("move_entry", "bury_entry"):
            written = [(arguments[0], answer)]
        elif name == "erase_message" and arguments[0].entry and arguments[0].entry.token:
            written = [(arguments[0].entry, answer)]
        else:
            return
        for entry, outcome in written:
            newest = self.versions.get(f"{entry.id}/{entry.nonce}", 0)
            assert not isinstance(outcome, Applied) or entry.version == newest, "a stale claim changed something"

    def _always(self) -> None:
        for key in self.ended.keys() | self.buried.keys():
            count = self.ended[key] + self.buried[key]
            assert count <= 1, f"{key} ended {count} times"
        if isinstance(self.real, MemoryStore):
            held = sum(not self._is_given_up(entry) for entry in self.real.entries.values())
            state = self.real.states.get((self.tenant, "Jobs"))
            depth = state.depth if state else 0
            assert held <= self.spec.retention.max_depth, f"{held} entries are over the limit"
            assert held <= depth, f"{held} entries, but the counter says {depth}"
            committed = [entry for entry in self.real.entries.values() if self.committed.get(entry.id) == entry.nonce]
            assert not committed or (state and state.listed), "a message is hidden from the sweep"

    def _is_given_up(self, entry: Entry) -> bool:
        """Its sender slept between its credit and this entry: the credit may be found lost, the entry never runs."""
        return entry.nonce in self.late and self.committed.get(entry.id) != entry.nonce

    def start(self, queue: Queue, held: Claim, together: Collection[str] = ()) -> bool:
        """A worker begins to run a message, in one call with others: everything that must hold just then."""
        if not held.may_start(queue.now()):
            return False
        key = (held.entry.id, held.entry.nonce)
        if key in self.cancelled:
            return True  # its holder has not heard yet: the run may start, and nothing that it answers may count
        assert self.committed.get(held.entry.id) == held.entry.nonce, "an uncommitted message was run"
        assert not self.ended[key], "a run started after done"
        assert not self.buried[key], "a run started after its dead letter"
        current = self.real.get_entry(held.entry.place)
        assert current is not None
        assert current.token == held.entry.token, "a run started without its claim"
        self._assert_body(held)
        self.starts[key] += 1
        self.begun.add((*key, held.entry.version))
        assert self.starts[key] <= MAX_ATTEMPTS, "more runs than attempts"
        self._assert_order(held, together)
        self._assert_places()
        return True

    def _assert_body(self, held: Claim) -> None:
        """A message that runs has its body, whole."""
        try:
            body = Runtime(self.real, self.blobs, clock=lambda: self.now).bodies.read(held.message)
        except BodyLost as error:
            raise AssertionError(f"a message points to a body that is gone: {error}") from error
        assert not self.bodies or body in self.bodies, "a message has a body that nobody sent"

    def _assert_order(self, held: Claim, together: Collection[str]) -> None:
        """Earlier is what was accepted before this one was sent; all messages here are of one key."""
        if not self.spec.ordering.ordered:
            return
        earlier = [(message_id, self.committed[message_id]) for message_id in self.sent_after.get(held.entry.id, ())]
        unfinished = [key for key in earlier if not self.ended[key] and not self.buried[key] and key[0] not in together]
        places = self.spec.concurrency_per_key or 1
        assert len(unfinished) < places, "a message started before an earlier one had ended"
        later = [(one, self.committed[one]) for one, before in self.sent_after.items() if held.entry.id in before]
        assert places > 1 or not any(self.ended[key] for key in later), "a message started after a later one had ended"

    def _assert_places(self) -> None:
        """Of those that were started never more hold their claim than the key has places."""
        if self.spec.concurrency_per_key is None or not isinstance(self.real, MemoryStore):
            return
        running = [
            entry
            for entry in self.real.entries.values()
            if entry.live(self.now) and (entry.id, entry.nonce, entry.version) in self.begun
        ]
        assert len(running) <= self.spec.concurrency_per_key, f"{len(running)} of a key run at the same time"

    # -- actors --
    def sender(
        self, key: str | None, count: int = 1, queue: Queue | None = None, body: bytes = b"x"
    ) -> Callable[[], None]:
        queue = queue or self.queue()

        def work() -> None:
            for _ in range(count):
                before, began = frozenset(self.accepted), self.now
                over = self.ended.keys() | self.buried.keys()
                try:
                    receipt = enqueue(queue, Draft(body, idempotency_key=key, key="k"))
                except MillraceError as error:
                    self._check_refusal(str(error), self.now - began)
                    return
                known = receipt.existing
                if receipt.duplicate and known is not None and began >= known.dedupe_until:
                    assert (known.id, known.nonce) not in over, "a repeat past its window was answered by what is over"
                self.accepted.add(receipt.message_id)
                self.sent_after.setdefault(receipt.message_id, before)

        return work

    @staticmethod
    def _check_refusal(problem: str, took_ms: int) -> None:
        assert took_ms > ORPHAN_GRACE_MS or "paused" not in problem, "a sender was refused as too late, and was not"

    def reviewer(self, content: bytes) -> Callable[[], None]:
        """A sweep that found a better dictionary."""
        queue = self.queue()

        def work() -> None:
            with suppress(MillraceError):
                publish(queue, queue.state(fresh=True), Dictionary(content))

        return work

    def worker(self, name: str, *, fails: bool = False, limit: int = 1, keeps: bool = True) -> Callable[[], None]:
        queue = self.queue()
        result = self.result if keeps else None

        def work() -> None:
            try:
                claims = claim(queue, owner=name, limit=limit).claims
                for number, held in enumerate(claims):
                    self.stage.pause("start of a run")
                    if not self.start(queue, held):
                        continue
                    self.stage.pause("run")
                    if fails:
                        nack(queue, held.entry, held.message, self.failure, lost=held.lost)
                        release(queue, [later.entry for later in claims[number + 1 :]])
                        return
                    if ack(queue, [held.entry], [result]) != [None] and ack(queue, [held.entry], [result]) != [None]:
                        return
                    ended_by = self.ended_by.get((held.entry.id, held.entry.nonce))
                    assert ended_by == held.entry.version, "a worker was told that it is done, and not by its claim"
            except MillraceError:
                return

        return work

    def parallel(self, name: str, limit: int) -> Callable[[], None]:
        """A worker that runs all that it has claimed at the same time."""
        queue = self.queue()

        def work() -> None:
            with suppress(MillraceError):
                claims = claim(queue, owner=name, limit=limit).claims
                started = [held.entry for held in claims if self.start(queue, held)]
                self.stage.pause("run")
                ack(queue, started, [b"r"] * len(started))

        return work

    def leader(self, name: str, limit: int) -> Callable[[], None]:
        """A worker of a fifo queue: each starts when the one before is out; results and counters follow behind."""
        queue = self.queue()

        def work() -> None:
            ended = []
            with suppress(MillraceError):
                for held in claim(queue, owner=name, limit=limit).claims:
                    self.stage.pause("start of a run")
                    if not self.start(queue, held):
                        break
                    self.stage.pause("run")
                    ended.append(end(queue, held.entry, b"r"))
            with suppress(MillraceError):
                follow_up(queue, [one for one in ended if one is not None])

        return work

    def batcher(self, name: str, limit: int, done: int) -> Callable[[], None]:
        """A worker of a fifo queue whose handler takes batches: of one the first `done` are done, the next failed."""
        queue = self.queue()

        def work() -> None:
            ended: list[Ended | None] = []
            with suppress(MillraceError):
                claims = claim(queue, owner=name, limit=limit).claims
                together = [held.entry.id for held in claims]
                self.stage.pause("start of a run")
                started = list(takewhile(lambda held: self.start(queue, held, together), claims))
                self.stage.pause("run")
                good = started[:done]
                ended, problem = end_in_order(queue, [held.entry for held in good], [b"r"] * len(good))
                behind = started[len(ended) + 1 :]
                self.starts.subtract((held.entry.id, held.entry.nonce) for held in behind)  # for nothing, uncharged
                if problem is None and done < len(started):
                    nack(queue, started[done].entry, started[done].message, self.failure, lost=started[done].lost)
                release(queue, [held.entry for held in behind])
            with suppress(MillraceError):
                follow_up(queue, [one for one in ended if one is not None])

        return work

    def racer(self, name: str, rounds: int) -> Callable[[], None]:
        """A worker that comes back: what it lost to others decides what it leaves to them."""
        queue = self.queue()

        def work() -> None:
            for _ in range(rounds):
                try:
                    for held in claim(queue, owner=name).claims:
                        if self.start(queue, held):
                            ack(queue, [held.entry], [b"r"])
                except MillraceError:
                    continue

        self.after_play.append(lambda: self._assert_nothing_is_left(queue, name))
        return work

    def _assert_nothing_is_left(self, queue: Queue, name: str) -> None:
        """Half a second later nothing is left to a rival any more, whether it is still there or not.

        Longer where a partition did not answer, and is left alone for so long.
        """
        self.now += max(ALL_TURNS_MS, SILENT_MS)
        may_run = self._may_run()
        claims = claim(queue, owner=name, limit=10).claims
        assert may_run <= {held.entry.id for held in claims}, "what may run was left to somebody who is gone"
        release(queue, [held.entry for held in claims])

    def prober(self, name: str) -> Callable[[], None]:
        """A worker in front of a target that is down, as the worker's fetch and its plan go about it."""
        queue = self.queue()
        breakers = Breakers(queue, [TARGET])

        def work() -> None:
            try:
                allowed = breakers.allowance()
                if not allowed.limit:
                    return
                for held in claim(queue, owner=name, limit=min(2, allowed.limit), least_tried=allowed.probe).claims:
                    if not self.start(queue, held):
                        continue
                    self.stage.pause("run")
                    if breakers.held_back_until(TARGET) is not None:
                        snooze(queue, held.entry, self.now + 1_000)
                        continue
                    self.probes += 1
                    assert self.probes <= 1, "a target that is down was called by two at once"
                    breakers.failed(TARGET)
                    nack(queue, held.entry, held.message, BROKEN, lost=held.lost)
            except MillraceError:
                return

        return work

    def time(self, *millis: int) -> Callable[[], None]:
        def work() -> None:
            for step in millis:
                self.stage.pause("time")
                self.now += step

        return work

    def sweeper(self) -> Callable[[], None]:
        queue = self.queue()

        def work() -> None:
            try:
                sweep(queue)
            except MillraceError:
                return

        return work

    def retirer(self) -> Callable[[], None]:
        """A sweep that meets a queue which nobody has used for a day."""
        queue = self.queue()

        def work() -> None:
            with suppress(MillraceError):
                for state in queue.store.list_all_queue_states():
                    if state.tenant == self.tenant and is_empty(queue):
                        retire(queue, state)

        return work

    def onlooker(self) -> Callable[[], None]:
        """Asks for a message's state; what it is told must be true at some moment while it asks."""
        queue = self.queue()

        def work() -> None:
            for message_id in list(self.accepted):
                try:
                    found = status(queue, message_id)
                except MillraceError:
                    return
                if found.status.ended:
                    key = (message_id, found.message.nonce)
                    assert self.ended[key] or self.buried[key], f"{message_id} was called {found.status} too early"

        return work

    def replayer(self, job: str) -> Callable[[], None]:
        queue = self.queue()

        def work() -> None:
            try:
                for dead_letter in list_dead_letters(queue).items:
                    self.accepted.add(replay(queue, dead_letter, job).message_id)
            except MillraceError:
                return

        return work

    def canceller(self) -> Callable[[], None]:
        """An operator who cancels what there is, whether somebody holds it or not."""
        queue = self.queue()

        def work() -> None:
            for message_id in list(self.accepted):
                with suppress(MillraceError):
                    cancel_message(queue, message_id, running=True)
                    key = (message_id, self.committed[message_id])
                    assert self.buried[key], "an operator was told that a message is cancelled, and it is not"

        return work

    def eraser(self) -> Callable[[], None]:
        """An operator who has everything forgotten, wherever it is, and repeats it where there was no answer."""
        queue = self.queue()

        def work() -> None:
            for message_id in sorted(self.committed):
                for _ in range(2):
                    with suppress(MillraceError):
                        forget_message(queue, message_id)
                        break

        def repeat() -> None:
            """Whoever died on the way is followed by another."""
            self.now += LEASE_MS
            for message_id in sorted(self.committed):
                forget_message(queue, message_id)
            assert SECRET.decode() not in self._stored(), "something of what was sent is still there"
            assert not self.blobs.objects, "a body is still there"

        self.after_play.append(repeat)
        return work

    def _stored(self) -> str:
        if not isinstance(self.real, MemoryStore):
            return repr([self.real.get_records(message_id) for message_id in self.committed])
        held = self.real
        return repr((held.messages, held.location, held.results, held.workflow_state, held.dead_letters, held.entries))

    def scheduler(self) -> Callable[[], None]:
        """A sweep that enqueues what is due of a schedule, as a process of its own."""
        queue = self.queue()

        def work() -> None:
            with suppress(MillraceError):
                enqueue_ticks(queue.runtime, _Scheduled(self.spec), SCHEDULE, self.tenant)

        return work

    # -- afterwards --
    def _may_run(self) -> set[str]:
        """Ids of what a free worker must be handed now: committed, due, unclaimed, first of its queue or key."""
        queue, blocked, found = self.queue(), Counter[str](), set[str]()
        places = self.spec.concurrency_per_key or 1
        for pk in queue.partitions():
            for entry in self.real.read_lane(pk, "", "~", 100).items:
                group = {Ordering.FIFO: "", Ordering.PER_KEY: entry.key}.get(self.spec.ordering, entry.id)
                if self.committed.get(entry.id) != entry.nonce:
                    continue
                attempts = entry.attempts + entry.lost(self.now)
                doomed = entry.expires_at <= self.now or attempts >= MAX_ATTEMPTS
                if blocked[group] < places and not doomed and not entry.live(self.now) and entry.due <= self.now:
                    found.add(entry.id)
                blocked[group] += 1
        return found

    def settle(self) -> None:
        """No more trouble: time passes, a healthy worker drains the queue, and everything is accounted for."""
        queue = self.queue()
        self.now += ORPHAN_GRACE_MS + LEASE_MS
        for _ in range(20):
            may_run = self._may_run()
            claims = claim(queue, owner="last", limit=10).claims
            handed_out = {held.entry.id for held in claims}
            assert may_run <= handed_out, f"{may_run - handed_out} may run and is not handed out"
            for held in claims:
                assert self.start(queue, held)
                assert ack(queue, [held.entry], [b"r"]) == [None]
            if not any(self.real.read_lane(pk, "", "~", 1).items for pk in queue.partitions()):
                break
            self.now += LEASE_MS
        self.now += GRANT_MINUTES * MINUTE + COMMIT_WITHIN_MS + SKEW_MS
        sweep(queue)
        for message_id in self.accepted:
            key = (message_id, self.committed.get(message_id, ""))
            assert self.ended[key] + self.buried[key] == 1, f"{message_id} was accepted and did not end"
        assert all(not self.real.read_lane(pk, "", "~", 9).items for pk in queue.partitions()), "entries are left"
        depth = self.real.get_queue_state(self.tenant, "Jobs").depth
        assert depth == 0, f"the counter says {depth} of an empty queue"


def _scenario(prepare: Callable[[World], list[tuple[str, Callable[[], None]]]], **settings: Any) -> Scenario:
    def scenario(run: Run, bounds: Bounds, store: Store | None = None) -> None:
        world = World(run, bounds, store, **settings)
        world.stage.play(prepare(world))
        for check in world.after_play:
            check()
        world.settle()

    return scenario


def _prepared(world: World, *drafts: Draft) -> None:
    for receipt in enqueue_all(world.queue(), drafts):
        assert not isinstance(receipt, MillraceError)
        world.sent_after[receipt.message_id] = frozenset(world.accepted)
        world.accepted.add(receipt.message_id)


def _sent_in_order(world: World) -> list[tuple[str, Callable[[], None]]]:
    return [
        ("sender A", world.sender(None, 2)),
        ("sender B", world.sender(None, 1)),
        ("worker", world.worker("w", limit=2)),
        ("other", world.worker("o", limit=2)),
    ]


def _sent_beside(world: World) -> list[tuple[str, Callable[[], None]]]:
    """Three senders of one key, which may lay their entries in another order than their numbers, and two workers."""
    return [
        ("sender A", world.sender(None, 1)),
        ("sender B", world.sender(None, 1)),
        ("sender C", world.sender(None, 1)),
        ("worker", world.parallel("w", 2)),
        ("other", world.parallel("o", 2)),
    ]


def _places(world: World) -> list[tuple[str, Callable[[], None]]]:
    """Four of a key with two places, under workers that fail, fall silent and come back."""
    _prepared(world, *(Draft(b"a", key="k") for _ in range(4)))
    return [
        ("one", world.parallel("one", 3)),
        ("time", world.time(LEASE_MS)),
        ("two", world.worker("two", limit=2, fails=True)),
        ("three", world.parallel("three", 2)),
    ]


def _same_key(world: World) -> list[tuple[str, Callable[[], None]]]:
    return [("sender A", world.sender("k")), ("sender B", world.sender("k")), ("worker", world.worker("w"))]


def _window_over(world: World) -> list[tuple[str, Callable[[], None]]]:
    world.sender("k")()
    world.now += 2_000
    return [("sender A", world.sender("k")), ("worker", world.worker("w")), ("sender B", world.sender("k"))]


def _large_same_key(world: World) -> list[tuple[str, Callable[[], None]]]:
    """Bodies in blobs, under one key: the same sent twice, and another one."""
    other = LARGE[:-1] + b"!"
    world.bodies = {LARGE, other}
    return [
        ("sender A", world.sender("k", body=LARGE)),
        ("sender B", world.sender("k", body=LARGE)),
        ("sender C", world.sender("k", body=other)),
        ("worker", world.worker("w")),
    ]


def _large_window_over(world: World) -> list[tuple[str, Callable[[], None]]]:
    world.sender("k", body=LARGE)()
    world.now += 2_000
    return [
        ("sender A", world.sender("k", body=LARGE)),
        ("worker", world.worker("w", fails=True)),
        ("other", world.worker("o")),
        ("sender B", world.sender("k", body=LARGE)),
    ]


def _reviewed(world: World) -> list[tuple[str, Callable[[], None]]]:
    """Two reviews at once, while bodies are packed and read; and weeks pass, so that a dictionary's use is over."""
    world.bodies = {PACKED}
    return [
        ("review A", world.reviewer(b"one" + PACKED[:400])),
        ("review B", world.reviewer(b"two" + PACKED[:300])),
        ("sender", world.sender(None, 3, body=PACKED)),
        ("worker", world.worker("w", limit=2)),
        ("weeks", world.time(USE_MS)),
    ]


def _retried_window_over(world: World) -> list[tuple[str, Callable[[], None]]]:
    """A retry moves the entry while a repeat of its key looks for it, long after the window."""
    world.sender("k")()
    world.now += 2_000
    return [("worker", world.worker("w", fails=True)), ("sender", world.sender("k")), ("onlooker", world.onlooker())]


def _takeover(world: World) -> list[tuple[str, Callable[[], None]]]:
    _prepared(world, Draft(b"x"))
    return [("slow", world.worker("slow")), ("time", world.time(LEASE_MS)), ("quick", world.worker("quick"))]


def _takeover_without_a_result(world: World) -> list[tuple[str, Callable[[], None]]]:
    """Nothing tells whose ending it was but the claims: a late ack must not pass for its own."""
    _prepared(world, Draft(b"x"))
    return [
        ("slow", world.worker("slow", keeps=False)),
        ("time", world.time(LEASE_MS)),
        ("quick", world.worker("quick", keeps=False)),
        ("onlooker", world.onlooker()),
    ]


def _failing_takeover(world: World) -> list[tuple[str, Callable[[], None]]]:
    _prepared(world, Draft(b"x"))
    return [
        ("slow", world.worker("slow", fails=True)),
        ("time", world.time(LEASE_MS, 1_000)),
        ("quick", world.worker("quick", fails=True)),
        ("onlooker", world.onlooker()),
    ]


def _batches(world: World) -> list[tuple[str, Callable[[], None]]]:
    _prepared(world, Draft(b"a"), Draft(b"b"), Draft(b"c"))
    return [("one", world.worker("one", limit=2)), ("two", world.worker("two", limit=2))]


def _raced(world: World) -> list[tuple[str, Callable[[], None]]]:
    """Two workers race for one message at a time, so that the loser begins to share; more arrive meanwhile."""
    _prepared(world, Draft(b"a"), Draft(b"b"), Draft(b"c"))
    return [
        ("one", world.racer("one", 3)),
        ("two", world.racer("two", 3)),
        ("sender", world.sender(None, 2)),
        ("time", world.time(TURN_MS, TURN_MS)),
    ]


def _in_order(world: World) -> list[tuple[str, Callable[[], None]]]:
    _prepared(world, Draft(b"a", key="k"), Draft(b"b", key="k"), Draft(b"c", key="k"))
    return [
        ("one", world.worker("one")),
        ("time", world.time(LEASE_MS)),
        ("two", world.worker("two", limit=2, fails=True)),
    ]


def _full(world: World) -> list[tuple[str, Callable[[], None]]]:
    return [
        ("sender A", world.sender(None, 2)),
        ("sender B", world.sender(None, 2)),
        ("worker", world.worker("w", limit=2)),
    ]


def _mended(world: World) -> list[tuple[str, Callable[[], None]]]:
    """A process died with credits; the sweep finds them while others send and finish."""
    _prepared(world, Draft(b"a"), Draft(b"b"))
    world.real.take_credits(world.tenant, "Jobs", CreditRequest(3, world.spec.retention.max_depth, world.now))
    world.now += GRANT_MINUTES * MINUTE + COMMIT_WITHIN_MS + SKEW_MS
    return [
        ("worker", world.worker("w", limit=2)),
        ("sweep", world.sweeper()),
        ("sender", world.sender(None)),
    ]


def _unlisted(world: World) -> list[tuple[str, Callable[[], None]]]:
    """Nobody has used the queue before: two senders begin, and a worker."""
    return [("sender A", world.sender(None)), ("sender B", world.sender("k")), ("worker", world.worker("w"))]


def _retired(world: World) -> list[tuple[str, Callable[[], None]]]:
    """A queue was idle for a day; two sweeps take it off their list while somebody sends."""
    world.sender(None)()
    world.worker("w")()
    world.now += IDLE_MS + 1_000
    return [
        ("sweep", world.retirer()),
        ("sender", world.sender(None)),
        ("time", world.time(IDLE_MS + 1_000)),
        ("other sweep", world.retirer()),
        ("late", world.sender(None)),
    ]


def _led(world: World) -> list[tuple[str, Callable[[], None]]]:
    """Messages of a fifo queue are done, and counted only later; the sweep and a sender come in between."""
    _prepared(world, Draft(b"a"), Draft(b"b"))
    world.now += GRANT_MINUTES * MINUTE + COMMIT_WITHIN_MS + SKEW_MS
    return [
        ("one", world.leader("one", 2)),
        ("sweep", world.sweeper()),
        ("sender", world.sender(None)),
        ("time", world.time(LEASE_MS)),
        ("two", world.leader("two", 2)),
    ]


def _batched(world: World) -> list[tuple[str, Callable[[], None]]]:
    """A batch of a fifo queue loses its claims on the way, and one of them alone to another worker."""
    _prepared(world, *(Draft(b"x") for _ in range(4)))
    return [
        ("one", world.batcher("one", 4, 3)),
        ("time", world.time(LEASE_MS)),
        ("two", world.leader("two", 1)),
        ("three", world.batcher("three", 3, 3)),
    ]


def _replayed(world: World) -> list[tuple[str, Callable[[], None]]]:
    _prepared(world, Draft(b"x"))
    for _ in range(MAX_ATTEMPTS):
        world.worker("w", fails=True)()
        world.now += 1_000
    return [("job", world.replayer("j")), ("same job", world.replayer("j")), ("worker", world.worker("w"))]


def _cancelled(world: World) -> list[tuple[str, Callable[[], None]]]:
    """An operator cancels a message that one worker holds, and another takes over."""
    _prepared(world, Draft(b"x"))
    return [
        ("slow", world.worker("slow")),
        ("time", world.time(LEASE_MS)),
        ("operator", world.canceller()),
        ("quick", world.worker("quick", fails=True)),
        ("onlooker", world.onlooker()),
    ]


def _erased(world: World) -> list[tuple[str, Callable[[], None]]]:
    """A message is erased while it is run, fails, is done or dies; whatever its holder writes then must not stay."""
    world.result, world.failure = SECRET, RunFailure("ValueError", SECRET.decode())
    _prepared(world, Draft(LARGE + SECRET, headers={"x": SECRET.decode()}, idempotency_key="k"))
    return [
        ("slow", world.worker("slow")),
        ("operator", world.eraser()),
        ("time", world.time(LEASE_MS)),
        ("quick", world.worker("quick", fails=True)),
        ("onlooker", world.onlooker()),
    ]


SCHEDULE = ScheduleDefinition("Hourly", "Test", "Jobs", "0 * * * *", "UTC", CatchUp.LATEST, None, {})


class _Scheduled(Definitions):
    """A deployment with one queue, for its schedule."""

    def __init__(self, spec: QueueSpec) -> None:
        self._definition = QueueDefinition(spec, "Test", None, (), None, None, None, None)

    def queue(self, name: str) -> QueueDefinition:
        return self._definition


def _ticked(world: World) -> list[tuple[str, Callable[[], None]]]:
    """Two sweeps meet a tick while its message is worked off; a third comes when the queue's window is long over."""
    world.scheduler()()
    world.now += 60 * MINUTE
    tick = world.now - world.now % (60 * MINUTE)

    def check() -> None:
        world.now += LEASE_MS
        world.scheduler()()
        made = [name for name in world.committed if name == tick_message_id(world.tenant, SCHEDULE, tick)]
        assert made == list(world.committed), "a message that is no tick's, or none"
        assert world.commits[made[0]] == 1, "a tick was enqueued twice"
        world.accepted.update(made)

    world.after_play.append(check)
    return [
        ("sweep", world.scheduler()),
        ("worker", world.worker("w")),
        ("time", world.time(2_000)),
        ("other sweep", world.scheduler()),
    ]


def _swept(world: World) -> list[tuple[str, Callable[[], None]]]:
    _prepared(world, Draft(b"x"))
    return [
        ("worker", world.worker("w")),
        ("time", world.time(60_000)),
        ("sweep", world.sweeper()),
    ]


def _asleep(world: World) -> list[tuple[str, Callable[[], None]]]:
    """A sender sleeps between its writes for longer than the grace; the same key is sent again meanwhile."""
    return [
        ("sender", world.sender("k")),
        ("time", world.time(ORPHAN_GRACE_MS + 1_000)),
        ("sweep", world.sweeper()),
        ("again", world.sender("k")),
    ]


def _slow(world: World) -> list[tuple[str, Callable[[], None]]]:
    """A credit is about to run out when its holder spends it, slowly; the sweep comes meanwhile."""
    queue = world.queue()
    world.sender(None, 2, queue)()  # the second takes two credits
    world.worker("w", limit=2)()
    world.now += GRANT_MINUTES * MINUTE - 1_000
    return [
        ("sender", world.sender(None, queue=queue)),
        ("time", world.time(45_000)),
        ("sweep", world.sweeper()),
    ]


def _beside_the_doomed(world: World) -> list[tuple[str, Callable[[], None]]]:
    """A message that has grown too old lies in front of a healthy one."""
    _prepared(world, Draft(b"old"))
    world.now += 3_600_000
    _prepared(world, Draft(b"healthy"))
    return [("worker", world.worker("w", limit=2)), ("other", world.worker("o", limit=2))]


def _probed(world: World) -> list[tuple[str, Callable[[], None]]]:
    """A probe is due of a target that is down, and three workers come by."""
    _prepared(world, Draft(b"a"), Draft(b"b"))
    seen = world.real.get_queue_state(world.tenant, "Jobs")
    assert world.real.set_breaker(seen, TARGET, BreakerState(world.now, since=world.now - 5_000))
    return [(name, world.prober(name)) for name in ("one", "two", "three")]


SCENARIOS: dict[str, Scenario] = {
    "three workers and one probe of a target": _scenario(_probed),
    "a sender asleep past the grace": _scenario(_asleep),
    "a slow sender with its last credit": _scenario(_slow),
    "a healthy message behind a doomed one": _scenario(_beside_the_doomed, retention=Retention(max_age_seconds=3_600)),
    "two senders of one key, and a worker": _scenario(_same_key),
    "three senders of one key with large bodies, and a worker": _scenario(_large_same_key),
    "a large message sent again after its window": _scenario(
        _large_window_over, idempotency=Idempotency(window_seconds=1)
    ),
    "two reviews of a dictionary in traffic": _scenario(_reviewed, retention=Retention(max_age_seconds=60 * 86_400)),
    "a key sent again after its window": _scenario(_window_over, idempotency=Idempotency(window_seconds=1)),
    "a retry during a repeat after the window": _scenario(
        _retried_window_over, idempotency=Idempotency(window_seconds=1)
    ),
    "a lease runs out under a worker": _scenario(_takeover),
    "a lease runs out and no result is kept": _scenario(_takeover_without_a_result),
    "two failing workers and an onlooker": _scenario(_failing_takeover),
    "two workers claim batches": _scenario(_batches),
    "fifo whose counters follow behind": _scenario(_led, ordering=Ordering.FIFO),
    "fifo in batches": _scenario(_batched, ordering=Ordering.FIFO),
    "two workers race and share": _scenario(_raced),
    "fifo under takeover and failure": _scenario(_in_order, ordering=Ordering.FIFO),
    "per_key under takeover and failure": _scenario(_in_order, ordering=Ordering.PER_KEY),
    "fifo while two senders send": _scenario(_sent_in_order, ordering=Ordering.FIFO),
    "per_key while two senders send": _scenario(_sent_in_order, ordering=Ordering.PER_KEY),
    "one place for each key while three send": _scenario(
        _sent_beside, ordering=Ordering.PER_KEY, concurrency_per_key=1
    ),
    "two places for each key while three send": _scenario(
        _sent_beside, ordering=Ordering.PER_KEY, concurrency_per_key=2
    ),
    "two places under takeover and failure": _scenario(_places, ordering=Ordering.PER_KEY, concurrency_per_key=2),
    "two senders at a full queue": _scenario(_full, retention=Retention(max_depth=2)),
    "the sweep mends a depth in traffic": _scenario(_mended, retention=Retention(max_depth=6)),
    "two senders of a queue that nobody has used": _scenario(_unlisted, listed=False),
    "a queue leaves the list while it is sent to": _scenario(_retired),
    "two sweeps and a tick": _scenario(_ticked, idempotency=Idempotency(window_seconds=1)),
    "a running message is cancelled": _scenario(_cancelled),
    "a message is erased wherever it is": _scenario(_erased),
    "one replay job run twice": _scenario(_replayed),
    "a message grows too old under a worker": _scenario(_swept, retention=Retention(max_age_seconds=60)),
}
