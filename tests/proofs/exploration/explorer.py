"""Every order of store calls: runs the real code with its actors stopped at each call, and tries what may happen.

Actors are greenlets over one store. At each call the explorer chooses who goes on, whether the caller dies here, or
whether the call happens and its answer is lost. A choice is a number, so a schedule is a list of numbers: a failing
one is printed as a readable trace and replays from that list.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from greenlet import greenlet

from millrace.model.body import Blobs
from millrace.stores.interface import Store
from millrace.testing.schedules import next_prefix, without_answer

#: How often a random schedule lets an actor go on.
STRAIGHT = 0.75


class Violation(AssertionError):
    """An invariant broke; carries the trace."""


@dataclass
class Actor:
    name: str
    work: Callable[[], None]
    glet: greenlet | None = None
    at: str = "start"  #: the call it is stopped in front of
    over: bool = False


@dataclass
class Bounds:
    """How much of each trouble one schedule may hold."""

    preemptions: int = 2
    crashes: int = 1
    losses: int = 1


@dataclass
class Census:
    """What a number of schedules went through."""

    schedules: int = 0
    steps: int = 0
    deaths: int = 0
    losses: int = 0
    states: set[int] = field(default_factory=set)  #: hashes, of this process's own seed

    def count(self, run: Run) -> None:
        self.schedules += 1
        self.steps += len(run.trace)
        self.deaths += sum(" dies before " in step for step in run.trace)
        self.losses += sum(" loses the answer of " in step for step in run.trace)

    def add(self, other: Census) -> None:
        self.schedules += other.schedules
        self.steps += other.steps
        self.deaths += other.deaths
        self.losses += other.losses
        self.states |= other.states


@dataclass
class Run:
    """One schedule: what was chosen, out of how many, and what happened."""

    prefix: Sequence[int]
    dice: random.Random | None = None
    census: Census | None = None
    chosen: list[int] = field(default_factory=list)
    widths: list[int] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)

    def choose(self, options: int, *, going_on: bool) -> int:
        number = len(self.chosen)
        if number < len(self.prefix):
            choice = min(self.prefix[number], options - 1)
        else:
            # Mostly straight on: trouble at every step would end most scenarios before they begin.
            straight = self.dice is None or (going_on and self.dice.random() < STRAIGHT)
            choice = 0 if straight else self.dice.randrange(options)  # type: ignore[union-attr]
        self.chosen.append(choice)
        self.widths.append(options)
        return choice


class Stepped:
    """A store, or blobs, that stops in front of every call, and shows what really happened afterwards."""

    def __init__(self, store: Store | Blobs, stage: Stage) -> None:
        self._store = store
        self._stage = stage

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **options: Any) -> Any:
            lost = self._stage.pause(name)
            answer = method(*arguments, **options)
            self._stage.happened(name, arguments, answer)
            return without_answer(name, answer) if lost else answer

        return call


class Stage:
    """Where the actors of one schedule run."""

    def __init__(self, run: Run, bounds: Bounds) -> None:
        self._run = run
        self._left = Bounds(bounds.preemptions, bounds.crashes, bounds.losses)
        self._actors: list[Actor] = []
        self._hub = greenlet.getcurrent()
        self._watchers: list[Callable[[str, tuple[Any, ...], Any], None]] = []
        self.current: Actor | None = None
        self.portrait: Callable[[], Hashable] = lambda: None  #: the store's content, for counting states

    def watch(self, watcher: Callable[[str, tuple[Any, ...], Any], None]) -> None:
        self._watchers.append(watcher)

    def happened(self, name: str, arguments: tuple[Any, ...], answer: Any) -> None:
        for watcher in self._watchers:
            watcher(name, arguments, answer)

    def pause(self, name: str) -> bool:
        """Stop in front of a call; True when its answer is to be lost. Outside of the play it just goes on."""
        actor = self.current
        if actor is None or greenlet.getcurrent() is self._hub:
            return False
        actor.at = name
        return bool(self._hub.switch())

    def play(self, actors: Sequence[tuple[str, Callable[[], None]]]) -> None:
        self._actors = [Actor(name, work) for name, work in actors]
        for actor in self._actors:
            actor.glet = greenlet(actor.work)
        last: Actor | None = None
        while ready := [actor for actor in self._actors if not actor.over]:
            last = self._step(ready, last)
        self.current = None

    def _step(self, ready: list[Actor], last: Actor | None) -> Actor:
        options: list[tuple[str, Actor]] = []
        going_on = last is not None and not last.over
        if going_on and last is not None:
            options.append(("goes on", last))
        if not going_on or self._left.preemptions:
            options += [("goes on", actor) for actor in ready if actor is not last]
        if going_on and last is not None and last.at not in ("start", "time"):
            if self._left.crashes:
                options.append(("dies before", last))
            if self._left.losses and not last.at.endswith("run"):
                options.append(("loses the answer of", last))
        what, actor = options[self._run.choose(len(options), going_on=going_on)]
        if going_on and actor is not last:
            self._left.preemptions -= 1
        self._run.trace.append(f"{actor.name} {what} {actor.at}")
        self.current = actor
        assert actor.glet is not None
        if what == "dies before":
            self._left.crashes -= 1
            actor.glet.throw()
            actor.over = True
        else:
            self._left.losses -= what != "goes on"
            actor.glet.switch(*(() if actor.at == "start" else (what != "goes on",)))
            actor.over = actor.glet.dead
        if self._run.census is not None:
            stand = tuple("" if one.over else one.at for one in self._actors)
            self._run.census.states.add(hash((stand, self.portrait())))
        return actor


Scenario = Callable[[Run, Bounds], None]


def explore(
    scenario: Scenario,
    bounds: Bounds,
    most: int,
    census: Census | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> int:
    """Depth first through every schedule within the bounds, up to `most` or a stop: how many were tried."""
    prefix: list[int] | None = []
    tried = 0
    while prefix is not None and tried < most and not stop():
        run = Run(prefix, census=census)
        _perform(scenario, run, bounds)
        tried += 1
        prefix = next_prefix(run.chosen, run.widths)
    return tried


def sample(scenario: Scenario, bounds: Bounds, seeds: Iterator[int] | range, census: Census | None = None) -> int:
    """Random schedules, one a seed."""
    tried = 0
    for seed in seeds:
        _perform(scenario, Run((), random.Random(seed), census), bounds)
        tried += 1
    return tried


def replay(scenario: Scenario, bounds: Bounds, choices: Sequence[int]) -> Run:
    """One schedule again, from its printed list."""
    run = Run(choices)
    _perform(scenario, run, bounds)
    return run


def _perform(scenario: Scenario, run: Run, bounds: Bounds) -> None:
    try:
        scenario(run, bounds)
    except AssertionError as broken:
        steps = "\n  ".join(run.trace)
        raise Violation(f"{broken}\nschedule {run.chosen}\n  {steps}") from broken
    finally:
        if run.census is not None:
            run.census.count(run)
