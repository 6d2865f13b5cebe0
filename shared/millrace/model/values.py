"""`dataclass` for frozen values, made in a tenth of the time at import.

The standard library writes and compiles six methods for each frozen class when its module is imported: two fifths
of the ingress's cold start. Here five of them are shared, and `__init__` is compiled when the first value is made, by
the standard library itself. Type checkers see the standard library's own; so does every class that is not
`@dataclass(frozen=True, slots=True)`.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
else:

    def dataclass(**options: bool) -> Callable[[type], type]:
        """As `dataclasses.dataclass`, with options."""
        return _value if options == {"frozen": True, "slots": True} else dataclasses.dataclass(**options)


__all__ = ["dataclass"]


def _value(cls: type) -> type:
    own = set(vars(cls))
    if "__eq__" in own and vars(cls).get("__hash__") is None:
        own.discard("__hash__")  # Python's None for a class that defines equality alone
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    for name, method in {**_identity(made), **_frozen(made), "__init__": _first_init(made)}.items():
        if name not in own:
            method.__name__, method.__qualname__ = name, f"{made.__qualname__}.{name}"
            setattr(made, name, method)
    return made


def _first_init(cls: type) -> Callable[..., None]:
    def init(self: Any, *args: Any, **named: Any) -> None:
        built = _compiled_init(cls)
        cls.__init__ = built  # type: ignore[misc]
        built(self, *args, **named)

    return init


def _compiled_init(cls: type) -> Callable[..., None]:
    """What the standard library compiles for a frozen class with these fields."""
    listed = dataclasses.fields(cls)
    namespace: dict[str, Any] = {
        "__module__": cls.__module__,
        "__annotations__": {one.name: one.type for one in listed},
    }
    for one in listed:
        if one.default_factory is not dataclasses.MISSING:
            given = dataclasses.field(default_factory=one.default_factory, init=one.init, kw_only=bool(one.kw_only))
        else:
            given = dataclasses.field(default=one.default, init=one.init, kw_only=bool(one.kw_only))
        namespace[one.name] = given
    if hasattr(cls, "__post_init__"):
        namespace["__post_init__"] = cls.__post_init__
    twin: Any = dataclasses.dataclass(frozen=True, slots=True, repr=False, eq=False)(type(cls.__name__, (), namespace))
    init: Callable[..., None] = twin.__init__
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _identity(cls: type) -> dict[str, Callable[..., Any]]:
    """Equality, hash and text, by the fields."""
    listed = dataclasses.fields(cls)
    compared = _reader([one.name for one in listed if one.compare])
    hashed = _reader([one.name for one in listed if (one.compare if one.hash is None else one.hash)])
    shown = [one.name for one in listed if one.repr]

    def equal(self: Any, other: object) -> Any:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed_value(self: Any) -> int:
        return hash(hashed(self))

    @recursive_repr("...")
    def text(self: Any) -> str:
        told = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
        return f"{self.__class__.__qualname__}({told})"

    return {"__eq__": equal, "__hash__": hashed_value, "__repr__": text}


def _reader(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple([getattr(value, name) for name in names])


def _frozen(cls: Any) -> dict[str, Callable[..., Any]]:
    """No field can be set or deleted; copies and pickles are made all the same."""
    names = tuple(one.name for one in dataclasses.fields(cls))

    def no_set(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def no_delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    def state(self: Any) -> list[Any]:
        return [getattr(self, name) for name in names]

    def restore(self: Any, kept: list[Any]) -> None:
        for name, value in zip(names, kept, strict=True):
            object.__setattr__(self, name, value)

    return {"__setattr__": no_set, "__delattr__": no_delete, "__getstate__": state, "__setstate__": restore}
