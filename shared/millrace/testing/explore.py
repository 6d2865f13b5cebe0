"""`explore`: a handler under every crash, lost answer and lost claim, held against a run without trouble.

Each schedule begins with an empty store and the same message. Workers run one after another, on the code of the
product, each a process of its own; at every store call and every effect one may die, get no answer to what happened,
or stand still until its claim is over and another worker has done the work. Then the queue goes on without trouble
until nothing is left. What happened outside must be what happens without any trouble: nothing twice, nothing not at
all.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from millrace.engine.enqueue import enqueue
from millrace.engine.queue import Runtime
from millrace.handlers.calling import HandlerFunction, call
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec
from millrace.testing.effects import Effects
from millrace.testing.explored_world import ExploredWorld, Subject
from millrace.testing.schedules import Schedule, every_schedule
from millrace.worker.context import RunContext
from millrace.worker.worker import Worker, WorkerSettings

MOST_SCHEDULES = 20_000
MOST_SHOWN = 5
ADVICE = (
    "A worker can be lost after an effect and before the queue has heard of it; the next one runs the handler again.\n"
    "Let writes to your own tables happen with the ack: context.transact([...]). Keep what other effects return with\n"
    "context.once(name, ...), and hand context.idempotency_key(name) to whoever performs them."
)
#: In one order, the same in every run; time stands still, so nothing is worth waiting for.
ONE_BY_ONE = WorkerSettings(concurrency=1, patience_ms=0, linger_ms=0, heartbeat=False)


class EffectsDiffer(AssertionError):
    """A schedule ended otherwise than a run without trouble; says how, and shows the schedule."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """What was gone through."""

    schedules: int
    points: int  #: store calls and effects, in all of them
    effects: dict[str, int]  #: what happened, in each of them alike


def explore(
    handler: HandlerFunction,
    given: Any = None,
    *,
    effects: Effects,
    setup: Callable[[], object] = lambda: None,
    faults: int = 1,
    queue: QueueSpec | None = None,
    replay: Sequence[int] | None = None,
) -> Exploration:
    """Run a handler, sync or async, under every schedule of up to `faults` faults.

    `given` is its input. `setup` prepares tables before each schedule, undisturbed. `replay` repeats one schedule
    that a report names. Raises EffectsDiffer where an effect happens more or less often than without trouble, or a
    table ends otherwise. A message that ends as a dead letter may leave something undone; twice is wrong in any case.
    """
    subject = _HandlerSubject(handler, given, queue or QueueSpec("Explored"))
    return explore_subject(subject, effects, setup=setup, faults=faults, replay=replay)


@dataclass(frozen=True, slots=True)
class _HandlerSubject:
    """One message for one handler."""

    handler: HandlerFunction
    given: Any
    spec: QueueSpec

    @property
    def lease_ms(self) -> int:
        return self.spec.lease_ms

    def enqueue(self, runtime: Runtime) -> None:
        enqueue(runtime.queue("default", self.spec), Draft(json.dumps(self.given).encode()))

    def workers(self, runtime: Runtime) -> list[Worker]:
        return [Worker(runtime.queue("default", self.spec), self._run, settings=ONE_BY_ONE)]

    def _run(self, context: RunContext) -> Any:
        context.input = context.json()
        return call(self.handler, context.input, context)


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a schedule ended, outside of the queue."""

    happened: Counter[str]
    items: dict[str, Any]
    dead: list[str]
    over: bool  #: nothing is left in any queue

    def problems(self, normal: _Ending) -> list[str]:
        """In what it differs from a run without trouble."""
        found = [] if self.over else ["A message never comes to an end."]
        for effect in sorted(self.happened.keys() | normal.happened.keys()):
            times, usual = self.happened[effect], normal.happened[effect]
            if times > usual:
                found.append(f"{effect} happened {times} times; without trouble: {usual}.")
            elif times < usual and not self.dead:
                told = f"{times} times" if times else "not at all"
                found.append(f"{effect} happened {told}; without trouble: {usual}. The message is done.")
        for name, items in self.items.items():
            if items != normal.items[name] and not self.dead:
                found.append(f"Table {name} holds {items}; without trouble: {normal.items[name]}.")
        return found


class _Explorer:
    """Performs schedules and counts them."""

    def __init__(self, subject: Subject, effects: Effects, setup: Callable[[], object]) -> None:
        self._subject = subject
        self._effects = effects
        self._setup = setup
        self.count = 0
        self.points = 0

    def perform(self, schedule: Schedule) -> tuple[_Ending, ExploredWorld]:
        world = ExploredWorld(self._subject, schedule)
        self._effects.begin(world)
        self._setup()
        over = world.play()
        self.count, self.points = self.count + 1, self.points + world.points
        return _Ending(Counter(self._effects.happened), self._effects.items(), world.dead, over), world

    def normal(self) -> _Ending:
        """Without trouble. Raises EffectsDiffer where even then the message is not done."""
        ending, _ = self.perform(Schedule((), 0))
        if ending.dead or not ending.over:
            told = f"ends as a dead letter: {ending.dead[0]}" if ending.dead else "never comes to an end."
            raise EffectsDiffer(f"Without any trouble the message {told}")
        return ending

    def differing(self, normal: _Ending, schedule: Schedule) -> dict[str, str]:
        """Problem → the schedule as a trace, that shows it."""
        ending, world = self.perform(schedule)
        trace = "\n".join(f"    {line}" for line in world.trace)
        again = f"    (explore(…, replay={schedule.short}) repeats it)"
        return dict.fromkeys(ending.problems(normal), f"{trace}\n{again}")

    def through(self, normal: _Ending, faults: int) -> dict[str, str]:
        """The same over every schedule with up to so many faults: the first that shows each problem."""
        found: dict[str, str] = {}
        for _ in every_schedule(faults, lambda schedule: found.update(self.differing(normal, schedule) | found)):
            if self.count > MOST_SCHEDULES:
                raise EffectsDiffer(f"More than {MOST_SCHEDULES} schedules: a smaller handler, or fewer `faults`.")
        return found


def explore_subject(
    subject: Subject,
    effects: Effects,
    *,
    setup: Callable[[], object] = lambda: None,
    faults: int = 1,
    replay: Sequence[int] | None = None,
) -> Exploration:
    """With one fault first, then with more: a trace with one is shorter. Raises EffectsDiffer."""
    explorer = _Explorer(subject, effects, setup)
    try:
        normal = explorer.normal()
        if replay is not None:
            _demand_none(explorer.differing(normal, Schedule(replay, len(replay))), explorer.count)
        else:
            for bound in range(1, faults + 1):
                _demand_none(explorer.through(normal, bound), explorer.count)
    finally:
        effects.end()
    return Exploration(explorer.count, explorer.points, dict(normal.happened))


def _demand_none(differing: dict[str, str], count: int) -> None:
    if differing:
        told = [f"{problem}\n{trace}" for problem, trace in list(differing.items())[:MOST_SHOWN]]
        raise EffectsDiffer("\n\n".join([*told, f"{count} schedules were tried.", ADVICE]))
