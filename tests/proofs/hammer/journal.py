"""A process's history file: every line is on the disk before the process goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from millrace.history.log import HistoryEvent
from millrace.history.reader import read_records
from millrace.history.records import HistoryRecord


class Journal:
    """Appends records; a SIGKILL loses at most what was not yet answered for."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, records: Iterable[HistoryRecord]) -> None:
        """One write and one fsync for all of them."""
        lines = [json.dumps(_fields(record), separators=(",", ":")) + "\n" for record in records]
        if lines:
            os.write(self._file, "".join(lines).encode())
            os.fsync(self._file)


def _fields(record: HistoryRecord) -> dict[str, object]:
    return {
        "at": record.at,
        "event": record.event.value,
        "message": record.message,
        "version": record.version,
        "owner": record.owner,
        "queue": record.queue,
        "key": record.key,
        "sequence": record.sequence,
    }


class Follower:
    """Reads what was appended to the histories of a folder since the last look."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}

    def news(self) -> Iterator[HistoryRecord]:
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                complete = file.read().rpartition(b"\n")
            self._read[path] = self._read.get(path, 0) + len(complete[0]) + len(complete[1])
            yield from read_records((complete[0] + complete[1]).decode().splitlines(keepends=True))


def accepted_in(path: Path) -> set[str]:
    """Messages that this file says were accepted: what a process need not send again."""
    if not path.exists():
        return set()
    with path.open() as file:
        return {record.message for record in read_records(file) if record.event is HistoryEvent.ACCEPTED}
