"""Locks on work items: one file for each item that somebody works on, which a crash does not leave behind for ever.

    FOLDER/.millrace/locks/{hash of the id}.json    {"id", "token", "host", "pid", "began", "at"}

A lock is lost when its process is gone (on this host: no such process, or another one with its number) or, on another
host, when it is older than `lost_after_s`. Whoever claims next takes a lost lock over. Everything that changes locks
holds the folder's guard, which the system lets go of when its holder dies; tokens make sure that a holder that lost
its lock changes nothing any more.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path

from millrace.items.folder import OWN
from millrace.model.clock import Clock, Entropy, system_clock, system_entropy
from millrace.model.ids import random_token

LOST_AFTER_S = 4 * 3600.0


class LockHeld(Exception):
    """Somebody else works on the item, or the lock was lost and taken over."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that works on items."""

    host: str
    pid: int
    began: str  #: when the process began, as its system tells: a number is given to another process some day


@dataclass(frozen=True, slots=True)
class Lock:
    """A claim on an item."""

    id: str
    token: str  #: only who has it may finish or give back
    host: str
    pid: int
    began: str
    at: int  #: milliseconds

    def held_by(self, holder: Holder) -> bool:
        return (self.host, self.pid, self.began) == (holder.host, holder.pid, holder.began)


def process_began(pid: int) -> str | None:
    """When a process of this host began; None for one that is gone, "" where the system does not tell."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    state, *fields = text.rpartition(")")[2].split()
    return None if state == "Z" else fields[18]


def holder_of(pid: int) -> Holder:
    return Holder(socket.gethostname(), pid, process_began(pid) or "")


class Locks:
    """The locks of one folder. Time, chance and what is known of processes are passed in."""

    def __init__(
        self,
        folder: Path,
        *,
        lost_after_s: float = LOST_AFTER_S,
        clock: Clock = system_clock,
        entropy: Entropy = system_entropy,
        host: str | None = None,
        began: Callable[[int], str | None] = process_began,
    ) -> None:
        self._folder = folder / OWN / "locks"
        self._lost_after_ms = lost_after_s * 1000
        self._clock = clock
        self._entropy = entropy
        self._host = host or socket.gethostname()
        self._began = began

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Nobody else changes locks meanwhile."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "guard").open("a") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            yield

    def read(self) -> dict[str, Lock]:
        """The locks that count, by item."""
        found: dict[str, Lock] = {}
        for path in self._folder.glob("*.json") if self._folder.exists() else ():
            lock = self._load(path)
            if lock is not None and not self.is_lost(lock):
                found[lock.id] = lock
        return found

    def is_lost(self, lock: Lock) -> bool:
        """Whether nobody can be working under it any more."""
        if lock.host != self._host:
            return self._clock() - lock.at > self._lost_after_ms
        began = self._began(lock.pid)
        return began is None or bool(began and lock.began and began != lock.began)

    def take(self, id_: str, holder: Holder) -> Lock:
        """Lock an item, under the guard. Raises LockHeld where a lock counts."""
        current = self._load(self._place(id_))
        if current is not None and not self.is_lost(current):
            raise LockHeld(f"{id_} is held by process {current.pid} on {current.host}.")
        lock = Lock(id_, random_token(self._entropy), holder.host, holder.pid, holder.began, self._clock())
        self._write(self._place(id_), lock)
        return lock

    def check(self, id_: str, token: str | None, holder: Holder) -> Lock:
        """The lock of an item that the caller holds: by its token, or as the process that took it. Raises LockHeld."""
        lock = self._load(self._place(id_))
        if lock is None:
            raise LockHeld(f"{id_} is not claimed, or its claim was lost.")
        own = compare_digest(token.encode(), lock.token.encode()) if token else lock.held_by(holder)
        if not own:
            raise LockHeld(f"{id_} is held by process {lock.pid} on {lock.host}, under another claim.")
        return lock

    def drop(self, lock: Lock) -> None:
        """Give an item back, under the guard."""
        self._place(lock.id).unlink(missing_ok=True)

    def _place(self, id_: str) -> Path:
        return self._folder / f"{sha256(id_.encode()).hexdigest()[:32]}.json"

    def _load(self, path: Path) -> Lock | None:
        try:
            return Lock(**json.loads(path.read_text("utf-8")))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError) as error:
            raise LockHeld(f"{path} is no lock: look at it, and remove it.") from error

    def _write(self, path: Path, lock: Lock) -> None:
        """As a whole: a crash leaves no half of a lock."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}.tmp")
        beside.write_text(json.dumps(asdict(lock)), "utf-8")
        beside.replace(path)
