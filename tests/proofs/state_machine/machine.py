"""The state machine: every operation of the engine, in any order, held to the reference after each step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

import hypothesis
from hypothesis import HealthCheck, settings
from hypothesis import Phase as Stage
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack
from millrace.engine.inspect import list_claims, list_entries, stats
from millrace.engine.operate import resume
from millrace.engine.poll import Filter
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.engine.sweep import sweep
from millrace.model.message import Draft, Entry
from tests.proofs.state_machine.driving import picks, processes
from tests.proofs.state_machine.operators import Operators
from tests.proofs.state_machine.senders import Senders, Wish, wishes
from tests.proofs.state_machine.workers import Workers, finishes
from tests.proofs.state_machine.world import DEPTH, WINDOW_MS, MakeStore

#: What every run of the machine counts, for the report.
tried: Counter[str] = Counter()


class QueueMachine(Senders, Workers, Operators):
    """All rules, what holds after each, and an end that nothing may be missing from."""

    @invariant()
    def everything_is_where_it_should_be(self) -> None:
        """Each unfinished message has exactly one entry, as the reference has it; each dead one its dead letter."""
        tried["steps"] += 1
        self._check_entries([entry for pk in self.world.queues[0].partitions() for entry in self._lanes(pk)])
        dead_letters = Counter(dead_letter.message.id for dead_letter in self.dead_letters())
        forgotten = Counter(sk.partition("#")[2] for sk in self.dead_letters_forgotten)
        assert dead_letters + forgotten == Counter(life.id for life in self.model.ended(MessageStatus.DEAD)), (
            "dead letters"
        )

    def _lanes(self, pk: str) -> tuple[Entry, ...]:
        return self.world.store.read_lane(pk, "", "~", 500).items

    def _check_entries(self, entries: list[Entry]) -> None:
        unfinished = {life.id: life for life in self.model.unfinished()}
        assert Counter(entry.id for entry in entries) == Counter(list(unfinished)), (
            "entries are not the unfinished messages"
        )
        for entry in entries:
            life = unfinished[entry.id]
            wanted = (life.version, life.attempts, life.holder, life.until, life.due, life.priority)
            assert (entry.version, entry.attempts, entry.token, entry.until, entry.due, entry.priority) == wanted

    @invariant()
    def the_depth_is_never_too_low_and_never_over_the_limit(self) -> None:
        assert len(self.model.unfinished()) <= self.depth() <= DEPTH

    @invariant()
    def what_may_run_is_handed_out_to_whoever_asks(self) -> None:
        """Liveness: a committed, due, unblocked message goes to the next free worker, whatever stands beside it."""
        queue = self.world.rehearsal()
        if queue is None or self.paused:
            return
        handed_out = {held.entry.id for held in claim(queue, owner="asks", limit=100).claims}
        may_run = {life.id for life in self.model.startable(self.world.now, Filter())}
        assert may_run <= handed_out, f"{may_run - handed_out} may run and is not handed out"

    def _check_status(self, queue: Queue, message_id: str) -> None:
        life, found = self.model.newest[message_id], status(queue, message_id)
        assert found.status is life.status(self.world.now)
        assert found.message.idempotency_key == "" or found.message.dedupe_until == life.window_until
        if found.status is MessageStatus.DONE:
            kept = (found.result.version, found.result.snapshot) if found.result else None
            keeps = queue.spec.idempotency.cache_result and life.result
            assert kept == ((life.ended_by, life.result) if keeps else None)
        numbers = [attempt.number for attempt in found.history]
        assert numbers == sorted(set(numbers))
        assert all(1 <= number <= life.attempts for number in numbers)

    @rule(process=processes, size=st.integers(1, 4), pick=picks)
    def look(self, process: int, size: int, pick: int) -> None:
        """One message by its id; the lists, page by page; the numbers."""
        queue, now = self.world.queues[process], self.world.now
        if self.model.lives:
            self._check_status(queue, self.model.lives[-1 - pick % len(self.model.lives)].id)
        unfinished = self.model.unfinished()
        claims = self._all_pages(lambda cursor: list_claims(queue, limit=size, cursor=cursor))
        assert sorted(claims) == sorted(life.id for life in unfinished if life.live(now))
        listed = [
            *self._all_pages(lambda cursor: list_entries(queue, "ready", limit=size, cursor=cursor)),
            *self._all_pages(lambda cursor: list_entries(queue, "scheduled", limit=size, cursor=cursor)),
        ]
        assert sorted(listed) == sorted(life.id for life in unfinished)
        numbers, statuses = stats(queue), Counter(life.status(now) for life in unfinished)
        assert (numbers.ready, numbers.scheduled) == (statuses[MessageStatus.READY], statuses[MessageStatus.SCHEDULED])
        assert (numbers.in_flight, numbers.depth) == (statuses[MessageStatus.IN_FLIGHT], len(unfinished))
        settled = self.dead_letters_forgotten | self.dead_letters_replayed
        assert numbers.dead_letters == len(self.model.ended(MessageStatus.DEAD)) - len(settled), "dead letters counted"
        assert numbers.paused == self.paused

    @rule(process=processes, wish=wishes, finish=finishes)
    def live_again(self, process: int, wish: Wish, finish: str) -> None:
        """A message is worked off, and the same key sent again after its window."""
        for _ in range(2):
            self.send(process, replace(wish, same="again", delay=0))
            self.work_one_off(process, finish)
            self.world.clock.forward(WINDOW_MS)

    @precondition(lambda self: self.world.spec.fair)
    @rule(process=processes, wish=wishes)
    def be_noisy(self, process: int, wish: Wish) -> None:
        """One key sends three, another one; then three are taken."""
        for key in ("k1", "k1", "k1", "k2"):
            self.send(process, replace(wish, same=None, delay=0, key=key))
        self.take(process, 3, Filter())

    def _all_pages(self, page) -> list[str]:  # type: ignore[no-untyped-def]
        found: list[str] = []
        cursor = None
        while True:
            entries = page(cursor)
            found += [entry.id for entry in entries.items]
            if (cursor := entries.next) is None:
                return found

    # -- the end ------------------------------------------------------------------------------------------------
    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        tried["lives"] += len(self.model.lives)
        tried["runs"] += 1
        self._work_everything_off()
        for message_id in self.model.newest:
            self._check_status(self.world.queues[0], message_id)
        self._fill_up()

    def _work_everything_off(self) -> None:
        """Once nobody interferes, everything accepted ends, and every lost credit is found."""
        queue = self.world.queues[0]
        resume(queue, "operator")
        self.paused, self.pause_known_at = False, [0, 0]
        self.world.fixed_chance = 0.0
        for _ in range(40):
            self.world.clock.forward(180_000)
            sweep(queue)
            self.buried(self.world.now)
            for held in claim(queue, owner="last", limit=100).claims:
                life = self.model.newest[held.entry.id]
                self.model.claim(life, self.world.now, queue.spec.lease_ms, held.entry.token)
                assert ack(queue, [held.entry]) == [None]
                life.finish(MessageStatus.DONE, held.entry.version)
            self.buried(self.world.now)
            if not self.model.unfinished():
                break
        assert not self.model.unfinished(), "accepted, and never ended"
        self.world.clock.forward(180_000)
        sweep(queue)
        assert self.depth() == 0, "credits are lost for good"

    def _fill_up(self) -> None:
        queue = self.world.queues[1]
        for number in range(DEPTH):
            enqueue(queue, Draft(b"last", key=f"k{number}"))


def run(
    make_store: MakeStore,
    *,
    examples: int,
    steps: int,
    seed: int | None = None,
    stages: Collection[Stage] = tuple(Stage),
) -> None:
    """Drive queues of every kind over one kind of store. Derandomised, unless a seed is given."""
    machine = type("QueueMachineHere", (QueueMachine,), {"make_store": staticmethod(make_store)})
    if seed is not None:
        machine = hypothesis.seed(seed)(machine)
    profile = settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=seed is None,
        database=None,
        deadline=None,
        print_blob=False,
        phases=stages,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=profile)
