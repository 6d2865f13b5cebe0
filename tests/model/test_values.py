"""Frozen values, held to the standard library's own dataclasses."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, asdict, field, fields, replace
from typing import Any

import pytest

from millrace.model import values


class Written:
    """What every twin is made of."""

    name: str
    tags: tuple[str, ...] = ()
    seen: dict[str, int] = field(default_factory=dict, compare=False)
    secret: str = field(default="s", repr=False)
    kind: str = field(default="k", init=False)
    late: int = field(default=0, kw_only=True, hash=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("no name")


def made(by: Any, **more: Any) -> Any:
    namespace = {name: thing for name, thing in vars(Written).items() if name not in ("__dict__", "__weakref__")}
    return by(frozen=True, slots=True)(type("Twin", (), {**namespace, **more}))


Ours: Any = made(values.dataclass)
Theirs: Any = made(dataclasses.dataclass)


def outcome(act: Any) -> object:
    try:
        return act()
    except Exception as error:  # noqa: BLE001 (compared with what the other raises)
        return type(error), str(error)


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ((), {}),
        (("x",), {}),
        (("",), {}),
        (("a", ("b",), {"c": 1}), {"late": 2}),
        (("a",), {"kind": "z"}),
        (("a", 1, {}, "t", 5), {}),
    ],
)
def test_a_value_is_made_shown_and_read_as_the_standard_librarys(args: Any, named: Any) -> None:
    def story(kind: Any) -> object:
        one = kind(*args, **named)
        return repr(one), asdict(one), [part.name for part in fields(one)], kind.__match_args__

    assert outcome(lambda: story(made(values.dataclass))) == outcome(lambda: story(Theirs))


def test_values_are_equal_and_hash_by_what_is_compared() -> None:
    one, same, other = Ours("a", seen={"x": 1}), Ours("a"), Ours("a", late=1)
    assert one == same
    assert hash(one) == hash(same) == hash(Theirs("a")) == hash(other)
    assert one != other
    assert one != Theirs("a")
    assert len({one, same, other}) == 2


def test_nothing_of_a_value_can_be_set_or_deleted() -> None:
    for act in (lambda one: setattr(one, "name", "b"), lambda one: delattr(one, "name")):
        assert outcome(lambda act=act: act(Ours("a"))) == outcome(lambda act=act: act(Theirs("a")))
    with pytest.raises(FrozenInstanceError):
        Ours("a").unknown = "b"


def test_values_are_copied_replaced_and_pickled() -> None:
    one = Ours("a", ("b",), {"c": 1}, late=3)
    assert copy.copy(one) == copy.deepcopy(one) == one
    assert replace(one, name="z") == Ours("z", ("b",), late=3)
    with pytest.raises(ValueError, match="no name"):
        replace(one, name="")
    assert pickle.loads(pickle.dumps(Single(3))) == Single(3)  # noqa: S301 (our own)


@values.dataclass(frozen=True, slots=True)
class Single:
    """One field, and another's methods."""

    number: float

    def __repr__(self) -> str:
        return "told by the class"


@values.dataclass(frozen=True, slots=True)
class More(Single):
    """Inherits a field."""

    text: str = "t"


class Plain(Single):
    """No dataclass: has attributes of its own."""


def test_a_class_keeps_its_own_methods_and_its_heirs_have_their_fields() -> None:
    nan = float("nan")
    assert (repr(Single(1)), Single(nan) == Single(nan)) == ("told by the class", True)
    assert (More(1).text, More(1, "u") == More(1, "u"), hash(Single(2))) == ("t", True, hash((2,)))
    assert not hasattr(Single(1), "__dict__")
    plain: Any = Plain(1)
    plain.other = 2
    with pytest.raises(FrozenInstanceError):
        plain.number = 2


def test_init_is_compiled_with_the_first_value_and_not_before() -> None:
    kind = made(values.dataclass)
    before = kind.__init__
    kind("a")
    built = kind.__init__
    kind("b")
    assert before is not built
    assert kind.__init__ is built
    assert built.__qualname__ == "Twin.__init__"


def test_other_options_are_the_standard_librarys() -> None:
    @values.dataclass(slots=True)
    class Changing:
        number: int

    one = Changing(1)
    one.number = 2
    assert one == Changing(2)
