"""A folder of work items: what is ready among them, by the files alone.

ready = its file says pending, every dependency's file says done, and nobody holds its lock
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from millrace.engine.drafts import priority_number
from millrace.items.fields import DONE, PENDING, ItemFields, ItemState, cycles_of, item_fields
from millrace.items.front_matter import Malformed, read_markdown
from millrace.model.errors import InvalidField
from millrace.model.queue_spec import PRIORITIES

#: Our own files; no work item lies there.
OWN = ".millrace"


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A file and where its item stands."""

    path: Path
    fields: ItemFields | None  #: None for a malformed file
    document: str = ""  #: the whole item as JSON: the body of its message
    state: ItemState = ItemState.MALFORMED
    reason: str = ""

    @property
    def id(self) -> str:
        return self.fields.id if self.fields else ""

    @property
    def priority(self) -> int:
        """As a queue counts it; one that a queue would refuse counts as normal."""
        text = self.fields.priority if self.fields else None
        try:
            return PRIORITIES["normal"] if text is None else priority_number(int(text) if text.isdecimal() else text)
        except InvalidField:
            return PRIORITIES["normal"]

    def matches(self, project: str | None, labels: Iterable[str]) -> bool:
        if self.fields is None:
            return False
        right_project = project is None or self.fields.project == project
        return right_project and set(labels) <= set(self.fields.labels or ())


def read_folder(folder: Path) -> list[WorkItem]:
    """Every work item below a folder with its state, by path. A file that is written meanwhile is read whole."""
    return derive([read_file(path) for path in item_files(folder)])


def item_files(folder: Path) -> list[Path]:
    """Markdown files below a folder, as Spark finds them: those whose way has a name with a dot or _ first are none."""
    found: list[Path] = []
    for at, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "._"]
        found += [Path(at) / name for name in files if name.endswith(".md") and name[0] not in "._"]
    return sorted(found)


def read_file(path: Path) -> WorkItem:
    """One file; its state is not derived yet, unless it is malformed."""
    try:
        document = read_markdown(path.read_bytes())
        text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        return WorkItem(path, item_fields(document), text)
    except (Malformed, ValueError) as error:
        return WorkItem(path, None, reason=f"invalid_message: {error}")


def derive(items: Iterable[WorkItem]) -> list[WorkItem]:
    """The items with their states."""
    of_id: dict[str, list[WorkItem]] = defaultdict(list)
    every = list(items)
    for item in every:
        if item.fields:
            of_id[item.id].append(item)
    statuses = {id_: found[0].fields.status for id_, found in of_id.items() if len(found) == 1 and found[0].fields}
    return [_derived(item, of_id, statuses) for item in every]


def _derived(item: WorkItem, of_id: dict[str, list[WorkItem]], statuses: dict[str, str]) -> WorkItem:
    fields = item.fields
    if fields is None:
        return item
    others = sorted(str(other.path) for other in of_id[fields.id] if other.path != item.path)
    if others:
        return _with(item, ItemState.DUPLICATE, f"duplicate_id: the id is also in {', '.join(others)}")
    if fields.status == DONE:
        return _with(item, ItemState.DONE)
    if fields.status != PENDING:
        return _with(item, ItemState.OTHER)
    missing = sorted(need for need in fields.depends_on if need not in statuses)
    if missing:
        return _with(item, ItemState.MISSING_DEPENDENCY, f"no file defines {', '.join(missing)}")
    open_ = sorted(need for need in fields.depends_on if statuses[need] != DONE)
    if open_:
        return _with(item, ItemState.BLOCKED, f"waits for {', '.join(open_)}")
    return _with(item, ItemState.READY)


def _with(item: WorkItem, state: ItemState, reason: str = "") -> WorkItem:
    return WorkItem(item.path, item.fields, item.document, state, reason)


def find_cycles(items: Iterable[WorkItem]) -> list[list[str]]:
    """Items that wait for each other, each cycle once."""
    waiting = {
        item.id: item.fields
        for item in items
        if item.fields and item.state in (ItemState.BLOCKED, ItemState.MISSING_DEPENDENCY)
    }
    return cycles_of({id_: [need for need in of.depends_on if need in waiting] for id_, of in waiting.items()})


def in_turn(items: Iterable[WorkItem]) -> list[WorkItem]:
    """What is ready, in the order in which it is claimed: highest priority first, then by path."""
    ready = [item for item in items if item.state is ItemState.READY]
    return sorted(ready, key=lambda item: (-item.priority, str(item.path)))


def set_status(item: WorkItem, status: str) -> None:
    """Write another status into an item's file; everything else in it stays byte for byte.

    The file is replaced as a whole: a crash leaves it as it was or as it is to be. Raises Malformed where the status
    is not a line of its own in the front matter, or the file was changed since it was read.
    """
    data = item.path.read_bytes()
    if json.dumps(read_markdown(data), ensure_ascii=False, separators=(",", ":")) != item.document:
        raise Malformed("the file was changed meanwhile")
    changed = _with_status(data, status)
    before, after = read_markdown(data), read_markdown(changed)
    if after != {**before, "status": status}:
        raise Malformed("the status is not a line of its own in the front matter")
    beside = item.path.with_name(f".{item.path.name}.{os.getpid()}.tmp")
    with beside.open("wb") as file:
        file.write(changed)
        file.flush()
        os.fsync(file.fileno())
    beside.chmod(item.path.stat().st_mode & 0o777)
    beside.replace(item.path)


def _with_status(data: bytes, status: str) -> bytes:
    lines = data.split(b"\n")
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == b"---":
            break
        if line.startswith(b"status:"):
            end = b"\r" if line.endswith(b"\r") else b""
            lines[number] = b"status: " + status.encode() + end
            break
    return b"\n".join(lines)


def as_json(item: WorkItem, lock: Any = None) -> dict[str, Any]:
    """An item for programs."""
    fields = item.fields
    return {
        "id": item.id or None,
        "state": item.state.value,
        "reason": item.reason or None,
        "priority": item.priority if fields else None,
        "project": fields.project if fields else None,
        "labels": list(fields.labels or ()) if fields else [],
        "depends_on": list(fields.depends_on) if fields else [],
        "file": str(item.path),
        "lock": lock,
    }
