"""The conditions under which the store writes, each stated once.

One condition serves both ways of writing: it is rendered as the ConditionExpression of a request for a single item,
and as the WHERE of a PartiQL statement in a batch. What breaks without a condition is said where it is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import repeat
from typing import Any

_ABSENT = "attribute_not_exists(pk)"


class Condition:
    """A test of the item as it stands, made by DynamoDB in the same step as the write."""

    __slots__ = ("absent_too", "names", "text", "values")

    def __init__(
        self, text: str, names: tuple[str, ...] = (), values: tuple[Any, ...] = (), *, absent_too: bool = False
    ) -> None:
        self.text = text  #: `#` stands for each of the names, `?` for each of the values
        self.names = names
        self.values = values
        self.absent_too = absent_too  #: it also holds where there is no item

    def __and__(self, other: Condition) -> Condition:
        return self._joined("{} AND {}", other)

    def __or__(self, other: Condition) -> Condition:
        return self._joined("({} OR {})", other)

    def _joined(self, form: str, other: Condition) -> Condition:
        if self.absent_too or other.absent_too:
            raise ValueError("or_absent comes last")
        return Condition(form.format(self.text, other.text), self.names + other.names, self.values + other.values)

    def or_absent(self) -> Condition:
        return Condition(self.text, self.names, self.values, absent_too=True)

    def expression(self) -> tuple[str, dict[str, str], dict[str, Any]]:
        """The ConditionExpression, its names and its values."""
        text, names = _expression(self.text, self.names, self.absent_too)
        return text, names, {f":c{number}": value for number, value in enumerate(self.values)}

    def where(self) -> str:
        """The same for PartiQL, behind the key. A batch finds out by the answer that there was no item."""
        return _where(self.text, self.names)


@lru_cache(maxsize=256)
def _expression(text: str, names: tuple[str, ...], absent_too: bool) -> tuple[str, dict[str, str]]:  # noqa: FBT001
    placeholders = {f"#c{number}": name for number, name in enumerate(names)}
    filled = _filled(text, placeholders, (f":c{number}" for number in range(text.count("?"))))
    if absent_too:
        filled = f"{_ABSENT} OR {filled}" if filled else _ABSENT
    return filled, placeholders


@lru_cache(maxsize=64)
def _where(text: str, names: tuple[str, ...]) -> str:
    return _filled(text, (f'"{name}"' for name in names), repeat("?"))


def _filled(text: str, names: Iterable[str], values: Iterable[str]) -> str:
    names, values = iter(names), iter(values)
    return "".join(next(names) if sign == "#" else next(values) if sign == "?" else sign for sign in text)


def value_of(plain: str | float) -> dict[str, Any]:
    """A text, number or truth value as DynamoDB writes it."""
    if isinstance(plain, bool):
        return {"BOOL": plain}
    return {"S": str(plain)} if isinstance(plain, str) else {"N": str(plain)}


# -- what is compared ----------------------------------------------------------------------------------------------
def _compared(name: str, comparison: str, plain: str | float) -> Condition:
    return Condition(f"# {comparison} ?", (name,), (value_of(plain),))


def equal(name: str, plain: str | float) -> Condition:
    return _compared(name, "=", plain)


def at_most(name: str, plain: float) -> Condition:
    return _compared(name, "<=", plain)


def missing(name: str) -> Condition:
    """The item has no such attribute."""
    return Condition("attribute_not_exists(#)", (name,))


def has(name: str) -> Condition:
    return Condition("attribute_exists(#)", (name,))


def counter_is(name: str, count: int) -> Condition:
    """Equal, where a counter that was never written counts as zero."""
    return equal(name, count) if count else missing(name) | equal(name, 0)


# -- what the protocol asks for ------------------------------------------------------------------------------------
#: Nothing is stored under the key yet.
ABSENT = Condition("", absent_too=True)
PRESENT = has("pk")


def holds_token(token: str) -> Condition:
    """The fence: whoever claimed the entry since has another token."""
    return equal("token", token)


def version_is(version: int) -> Condition:
    return equal("version", version)


def claim_over(now: int) -> Condition:
    """No claim is live."""
    return at_most("until", now)


def claim_live(now: int) -> Condition:
    return _compared("until", ">", now)


def nonce_is(nonce: str) -> Condition:
    """The item belongs to this acceptance of its message id."""
    return equal("nonce", nonce)


def nonce_is_not(nonce: str) -> Condition:
    return _compared("nonce", "<>", nonce)
