"""Reading histories: journals of single records, and the lines of `history.log` among everything else that a log holds.

A log line may carry the record as it is, behind a time and a stream's name (`aws logs tail`, an export to S3), over
several lines (`aws logs tail --format json`), or as text inside JSON (`filter-log-events`, a query's results, what a
subscription delivers).
"""

from __future__ import annotations

import gzip
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from sys import intern
from typing import Any, BinaryIO, TextIO, cast

from millrace.history.log import ACTION, HistoryEvent
from millrace.history.records import HistoryRecord

#: A record lies no deeper than this in what CloudWatch wraps around it.
DEPTH = 8
STANDARD_INPUT = "-"
_EVENTS = frozenset(HistoryEvent)
_MARK = re.compile(r'\{\s*"action":\s*"' + ACTION + '"')
_DECODER = json.JSONDecoder()


class MalformedHistory(Exception):
    """A line of a history is not a record."""


@dataclass(slots=True)
class LogRecords:
    """What was read of a log so far: count it after the last record was taken."""

    lines: int = 0
    recorded: int = 0  #: lines that held records
    torn: list[str] = field(default_factory=list)  #: lines that began as records and could not be read

    @property
    def other(self) -> int:
        return self.lines - self.recorded - len(self.torn)

    def read(self, name: str, lines: Iterable[str]) -> Iterator[HistoryRecord]:
        """The records of one file, in its order. A last line without its end is left out: its writer was killed."""
        for number, count, text in _blocks(lines):
            self.lines += count
            if ACTION not in text and '"event"' not in text:
                continue
            try:
                found = list(_records_in(_decoded(text)))
            except (ValueError, KeyError, TypeError, IndexError) as error:
                if text.endswith("\n"):
                    self.torn.append(f"{name}:{number}: {type(error).__name__}: {error}")
                continue
            self.recorded += count if found else 0
            yield from found


def read_records(lines: Iterable[str]) -> Iterator[HistoryRecord]:
    """The records of a journal that holds nothing else. A last line without its end is left out.

    Raises MalformedHistory with the line's number for anything else that is not a record.
    """
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            return
        if not line.strip():
            continue
        try:
            yield _single(json.loads(line))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise MalformedHistory(f"Line {number} is not a record: {type(error).__name__}: {error}.") from error


@contextmanager
def opened(name: str) -> Iterator[TextIO]:
    """A log by its name: `-` is standard input; what was packed by gzip is unpacked. Raises OSError."""
    standard = name == STANDARD_INPUT
    with open(sys.stdin.fileno() if standard else name, "rb", closefd=not standard) as raw:
        packed = raw.peek(2)[:2] == b"\x1f\x8b"
        data = cast("BinaryIO", gzip.GzipFile(fileobj=raw)) if packed else raw
        yield io.TextIOWrapper(data, encoding="utf-8", errors="replace", newline="\n")


def _blocks(lines: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    """Lines, each with its number and how many it stands for: an object printed over several is one."""
    block: list[str] = []
    for number, line in enumerate(lines, 1):
        if block and line[:1] not in ("}", "]", " ", "\t"):
            yield from ((number - len(block) + i, 1, text) for i, text in enumerate(block))
            block = []
        if block or line.rstrip().endswith("{"):
            block.append(line)
            if line.startswith("}"):
                yield number, len(block), "".join(block)
                block = []
        else:
            yield number, 1, line
    yield from ((0, 1, text) for text in block)


def _decoded(text: str) -> Any:
    """The JSON of a line, whatever stands in front of it. None where there is none; raises ValueError for half a
    record."""
    mark = _MARK.search(text)
    start = mark.start() if mark else text.find("{")
    if start < 0:
        return None
    try:
        return _DECODER.raw_decode(text, start)[0]
    except (ValueError, RecursionError):
        later = _MARK.search(text, start + 1) if mark else None
        if later:  # another process wrote behind the half line of one that was killed
            return _DECODER.raw_decode(text, later.start())[0]
        if mark:
            raise
        return None


def _records_in(value: Any, depth: int = DEPTH) -> Iterator[HistoryRecord]:
    if depth == 0:
        return
    if isinstance(value, dict):
        if value.get("action") == ACTION and "messages" in value:
            yield from _batch(value)
        elif isinstance(value.get("event"), str) and value["event"] in _EVENTS and "message" in value and "at" in value:
            yield _single(value)
        else:
            for inner in value.values():
                yield from _records_in(inner, depth - 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _records_in(inner, depth - 1)
    elif isinstance(value, str) and "{" in value and (ACTION in value or '"event"' in value):
        yield from _records_in(_decoded(value), depth - 1)


def _batch(fields: Mapping[str, Any]) -> Iterator[HistoryRecord]:
    """The line of `history.log.HistoryLog`: one event for several messages.

    Every name comes up again and again, and is kept once.
    """
    at, event = int(fields["at"]), HistoryEvent(fields["event"])
    owner, queue, tenant = (intern(str(fields[name])) for name in ("owner", "queue", "tenant"))
    more = [int(fields.get(name, 0)) for name in ("due", "priority", "max_attempts", "places")]
    for message, version, nonce, *order in fields["messages"]:
        key, sequence, sent = order or ("", None, None)
        life = intern(str(message)), int(version), owner, queue, intern(str(key)), sequence, tenant, intern(str(nonce))
        yield HistoryRecord(at, event, *life, sent, *more)


def _single(fields: Mapping[str, Any]) -> HistoryRecord:
    """A journal's line: one event for one message."""
    sequence = fields.get("sequence")
    return HistoryRecord(
        at=int(str(fields["at"])),
        event=HistoryEvent(str(fields["event"])),
        message=str(fields["message"]),
        version=int(str(fields.get("version", 0))),
        owner=str(fields.get("owner", "")),
        queue=str(fields.get("queue", "")),
        key=str(fields.get("key", "")),
        sequence=None if sequence is None else int(str(sequence)),
        due=int(str(fields.get("due", 0))),
        max_attempts=int(str(fields.get("max_attempts", 0))),
        places=int(str(fields.get("places", 0))),
    )
