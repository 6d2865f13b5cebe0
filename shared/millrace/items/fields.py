"""The fields of a work item, and the words for where it stands: one rule for the command line and for Spark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

PENDING, DONE = "pending", "done"
MAX_ID = 400


class ItemState(StrEnum):
    """Where a work item stands."""

    READY = "ready"  #: nothing holds it back; it is queued unless its message is there
    BLOCKED = "blocked"  #: a dependency is not done yet
    MISSING_DEPENDENCY = "missing_dependency"  #: a dependency has no file
    DONE = "done"
    OTHER = "other"  #: neither pending nor done by its file
    DUPLICATE = "duplicate_id"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class ItemFields:
    """What a file says of its item, checked."""

    id: str
    status: str
    depends_on: tuple[str, ...] = ()
    revision: str | None = None
    priority: str | None = None
    project: str | None = None
    labels: tuple[str, ...] | None = None

    @property
    def idempotency_key(self) -> str:
        """Another revision is another message."""
        return f"{self.id}@{self.revision}" if self.revision else self.id


def item_fields(fields: Mapping[str, Any]) -> ItemFields:
    """The fields of a file's front matter. Raises ValueError with what is wrong."""
    id_ = _required(fields, "id")
    if "@" in id_:
        raise ValueError("id: expected no @, which sets a revision apart")
    return ItemFields(
        id_,
        revision=_text(fields, "revision"),
        status=_required(fields, "status"),
        depends_on=_texts(fields, "depends_on"),
        priority=_text(fields, "priority"),
        project=_text(fields, "project"),
        labels=_texts(fields, "labels") if fields.get("labels") is not None else None,
    )


def _required(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_ID:
        raise ValueError(f"{name}: expected a text of 1 to {MAX_ID} characters, found {type(value).__name__}")
    return value.strip()


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    return None if fields.get(name) is None else _required(fields, name)


def _texts(fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
    value = fields.get(name)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    return tuple(dict.fromkeys(_required({name: part}, name) for part in listed))


def cycles_of(needs: Mapping[str, list[str]]) -> list[list[str]]:
    """The groups in which everything depends on everything (Tarjan's strongly connected components), sorted."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    cycles: list[list[str]] = []

    def enter(id_: str) -> tuple[str, Iterator[str]]:
        number[id_] = lowest[id_] = len(number)
        stack.append(id_)
        on_stack.add(id_)
        return id_, iter(needs.get(id_, ()))

    for root in sorted(needs):
        work = [enter(root)] if root not in number else []
        while work:  # a walk of its own: a chain of a million items must not use up Python's stack
            id_, rest = work[-1]
            for need in rest:
                if need not in number:
                    work.append(enter(need))
                    break
                if need in on_stack:
                    lowest[id_] = min(lowest[id_], number[need])
            else:
                work.pop()
                if work:
                    lowest[work[-1][0]] = min(lowest[work[-1][0]], lowest[id_])
                if lowest[id_] == number[id_]:
                    group = [stack.pop()]
                    while group[-1] != id_:
                        group.append(stack.pop())
                    on_stack.difference_update(group)
                    if len(group) > 1 or id_ in needs.get(id_, ()):
                        cycles.append(sorted(group))
    return sorted(cycles)
