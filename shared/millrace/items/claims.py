"""Claim, finish and give back work items of a folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from millrace.items.fields import DONE, ItemState
from millrace.items.folder import WorkItem, in_turn, read_folder, set_status
from millrace.items.locks import Holder, Lock, LockHeld, Locks


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """Which items somebody works on."""

    project: str | None = None
    labels: tuple[str, ...] = ()
    id: str | None = None

    def matches(self, item: WorkItem) -> bool:
        return item.matches(self.project, self.labels) and self.id in (None, item.id)


@dataclass(frozen=True, slots=True)
class ClaimedItem:
    """An item in somebody's hands."""

    item: WorkItem
    lock: Lock


def ready_items(folder: Path, locks: Locks, only: ItemFilter = ItemFilter()) -> list[WorkItem]:  # noqa: B008 (a frozen value)
    """What may be claimed, in its order."""
    held = locks.read()
    return [item for item in in_turn(read_folder(folder)) if only.matches(item) and item.id not in held]


def claim_items(folder: Path, locks: Locks, holder: Holder, only: ItemFilter, limit: int = 1) -> list[ClaimedItem]:
    """Lock up to `limit` items that are ready. Nobody else gets them until they are done, given back or lost."""
    with locks.guarded():  # files are read under it: an item that was finished meanwhile is not claimed again
        return [ClaimedItem(item, locks.take(item.id, holder)) for item in ready_items(folder, locks, only)[:limit]]


def finish_item(folder: Path, locks: Locks, holder: Holder, id_: str, token: str | None) -> WorkItem:
    """Write `done` into an item's file and unlock it.

    Raises LockHeld where the claim is not the caller's, or was lost; Malformed where the file cannot be changed. A
    crash in between leaves a file that says done, and a lock that is lost with its process.
    """
    with locks.guarded():
        lock = locks.check(id_, token, holder)
        item = _one(folder, id_)
        if item.state is not ItemState.DONE:
            set_status(item, DONE)
        locks.drop(lock)
        return item


def release_item(locks: Locks, holder: Holder, id_: str, token: str | None) -> None:
    """Give an item back as it is. Raises LockHeld where the claim is not the caller's."""
    with locks.guarded():
        locks.drop(locks.check(id_, token, holder))


def _one(folder: Path, id_: str) -> WorkItem:
    found = [item for item in read_folder(folder) if item.id == id_]
    if len(found) != 1:
        raise LockHeld(f"{len(found)} files define {id_}.")
    return found[0]


class EnqueuedItems:
    """Which items were handed to a queue: a line for each, so that a message that ended is not sent again."""

    def __init__(self, folder: Path, queue: str) -> None:
        self._path = folder / ".millrace" / f"enqueued-{queue}.txt"

    def keys(self) -> set[str]:
        return set(self._path.read_text("utf-8").splitlines()) if self._path.exists() else set()

    def add(self, key: str) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{key}\n")


def not_enqueued(items: Iterable[WorkItem], enqueued: EnqueuedItems) -> list[WorkItem]:
    known = enqueued.keys()
    return [item for item in items if item.fields and item.fields.idempotency_key not in known]
