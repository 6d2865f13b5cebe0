"""A store whose calls fail on demand: the answer is lost, the call is never sent, or the store is down."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from millrace.model.errors import StoreUnavailable
from millrace.stores.interface import Store, Unknown

#: What becomes of one call: gets the way to the store and the arguments.
CallFault = Callable[[Callable[..., Any], tuple[Any, ...]], Any]
SILENCE = StoreUnavailable("no answer")


def works(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return call(*arguments)


def lost(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Applied, and nobody heard of it."""
    return [Unknown(SILENCE) for _ in call(*arguments)]


def unsent(_call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return [Unknown(SILENCE) for _ in arguments[0]]


def down(_call: Callable[..., Any], _arguments: tuple[Any, ...]) -> Any:
    raise SILENCE


def each(names: Sequence[str]) -> CallFault:
    """A fault for each element of a list, in turn: `works`, `lost` or `unsent`."""

    def fail(call: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        items = arguments[0]
        faults = [names[number % len(names)] for number in range(len(items))]
        sent = [item for item, fault in zip(items, faults, strict=True) if fault != "unsent"]
        answers = iter(call(sent, *arguments[1:]))
        results = [None if fault == "unsent" else next(answers) for fault in faults]
        return [result if fault == "works" else Unknown(SILENCE) for result, fault in zip(results, faults, strict=True)]

    return fail


class FaultyStore:
    """A store of which the next calls of a method fail as planned."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._plans: dict[str, deque[CallFault]] = {}
        self._always: dict[str, CallFault] = {}
        self.calls: list[tuple[str, Any]] = []

    def plan(self, method: str, *faults: CallFault, always: CallFault | None = None) -> None:
        """The next calls meet these; every one after them `always`, where given."""
        self._plans[method] = deque(faults)
        self._always[method] = always or works

    def heal(self) -> None:
        self._plans, self._always = {}, {}

    def asked(self, method: str) -> list[Any]:
        """What each call of a method was given first."""
        return [first for name, first in self.calls if name == method]

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            self.calls.append((name, arguments[0] if arguments else None))
            plan = self._plans.get(name)
            fault = plan.popleft() if plan else self._always.get(name, works)
            return fault(lambda *a: method(*a, **named), arguments)

        return call
