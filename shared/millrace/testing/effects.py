"""What a handler does to the world, recorded: fakes of the clients that it calls, and tables of its own in memory.

    effects = Effects()
    charge = effects.record("charge")                  # stands for the card company's client
    orders = effects.table("orders", "number")         # stands for boto3's client, with an empty table

A test hands them to its handler, in whatever way it gets its clients. `explore` puts a fault before each of them, and
counts how often each happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Protocol

from millrace.handlers.calling import is_async
from millrace.stores.memory.app_tables import AppTables
from millrace.stores.memory.expressions import Item

_CALLS = frozenset({"get_item", "put_item", "update_item", "delete_item", "transact_write_items"})


class World(Protocol):
    """Where faults come from."""

    def point(self, what: str) -> bool:
        """A process is about to do something; True where it happens and its answer is lost."""

    @property
    def tables(self) -> AppTables:
        """The app's own tables."""


class _Undisturbed:
    """The world of a test that explores nothing."""

    def __init__(self) -> None:
        self.tables = AppTables()

    def point(self, _what: str) -> bool:
        return False


class Effects:
    """Everything that handlers of one test do outside of the queue."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[str, ...]] = {}
        self._world: World = _Undisturbed()
        self.happened: Counter[str] = Counter()  #: effect, as it is told → how often
        self._answers: dict[tuple[str, Any], Any] = {}

    def record(
        self,
        name: str,
        function: Callable[..., Any] = lambda *_given, **_named: None,
        *,
        key: Callable[..., Any] | None = None,
        idempotent_by: str = "",
        lost: Callable[[], Exception] = lambda: TimeoutError("no answer"),
    ) -> Callable[..., Any]:
        """A client's call: `function` makes its answer, and is a coroutine function where the call is awaited.

        Two calls are the same effect where they have the same arguments; `key` makes what tells them apart instead,
        out of the arguments. `idempotent_by` names the argument by which whoever performs the effect recognises a
        repeat, as Stripe does: it happens once, and the first answer is given again. `lost` makes what the caller
        gets when the effect happened and no answer came.
        """

        def before(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[str, Any, bool]:
            told = _told(name, key, given, {n: v for n, v in named.items() if n != idempotent_by})
            return told, named.get(idempotent_by), self._world.point(told)

        def after(told: str, token: Any, answer: Any) -> Any:
            self.happened[told] += 1
            if token is not None:
                self._answers[name, token] = answer
            return answer

        def known(token: Any) -> bool:
            return token is not None and (name, token) in self._answers

        @wraps(function)
        def blocking(*given: Any, **named: Any) -> Any:
            told, token, is_lost = before(given, named)
            answer = self._answers[name, token] if known(token) else after(told, token, function(*given, **named))
            if is_lost:
                raise lost()
            return answer

        @wraps(function)
        async def awaited(*given: Any, **named: Any) -> Any:
            told, token, is_lost = before(given, named)
            answer = self._answers[name, token] if known(token) else after(told, token, await function(*given, **named))
            if is_lost:
                raise lost()
            return answer

        return awaited if is_async(function) else blocking

    def table(self, name: str, *key: str) -> TableClient:
        """An empty table in memory, and boto3's client for it: `context.transact` writes to it as well."""
        self._keys[name] = key
        self._world.tables.create(name, *key)
        return TableClient(self, name)

    # -- for `explore` --
    def begin(self, world: World | None = None) -> None:
        """Forget what happened; from here on faults come from this world."""
        self._world = world or _Undisturbed()
        self.happened = Counter()
        self._answers = {}
        for name, key in self._keys.items():
            self._world.tables.create(name, *key)

    def end(self) -> None:
        """No more faults; what happened stays to be looked at."""
        self._world = _Still(self._world.tables)

    def items(self) -> dict[str, list[Item]]:
        """Every table's items."""
        return {name: self._world.tables.items(name) for name in self._keys}

    def call(self, method: str, **request: Any) -> Any:
        """One call of boto3's client."""
        told = f"{method} of {request.get('TableName', 'several tables')}"
        is_lost = self._world.point(told)
        answer = getattr(self._world.tables, method)(**request)
        if is_lost:
            raise TimeoutError("no answer")
        return answer


class _Still(_Undisturbed):
    def __init__(self, tables: AppTables) -> None:
        self.tables = tables


class TableClient:
    """Boto3's client, as far as it reads and writes single items; `items` shows what is there."""

    def __init__(self, effects: Effects, name: str) -> None:
        self._effects = effects
        self._name = name

    def __getattr__(self, method: str) -> Any:
        if method not in _CALLS:
            raise AttributeError(f"A table in memory has no {method!r}: {', '.join(sorted(_CALLS))}.")
        return partial(self._effects.call, method)

    def items(self) -> list[Item]:
        """Every item of the table, in the order of their keys."""
        return self._effects.items()[self._name]


def _told(name: str, key: Callable[..., Any] | None, given: tuple[Any, ...], named: dict[str, Any]) -> str:
    if key is not None:
        return f"{name}({key(*given, **named)!r})"
    return f"{name}({', '.join([*map(repr, given), *(f'{n}={v!r}' for n, v in sorted(named.items()))])})"
