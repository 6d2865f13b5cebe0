"""Claims as remote workers hold them: an opaque, sealed text that carries all that finishing needs.

A handle says where the entry lies, so ack, extend and release need no look-up. The token in it is the fence; the
lease's end in it tells an ack that was answered late from a stale one, so an extend answers with a new handle. The seal
binds it to its tenant and queue: without it a holder could write another message's id beside its own token,
and reach what that message's consumer keeps.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from millrace.engine.queue import Queue
from millrace.http.problems import InvalidClaim
from millrace.model.keys import partition
from millrace.model.message import Attempt, Entry, Place

#: The longest handle: an entry stays below 1 KB.
MAX_HANDLE = 2_048
HANDLE_PATTERN = r"c1\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{22}"
_HANDLE = re.compile(HANDLE_PATTERN, re.ASCII)
SEAL_BYTES = 16


@dataclass(frozen=True, slots=True)
class ClaimHandle:
    """A handle read: the claim's part of its entry, and the lost run before it."""

    entry: Entry
    lost: Attempt | None


class Handles:
    """Writes and reads handles with the deployment's key, which is asked for once."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        self._ask = key
        self._key: bytes | None = None

    def write(self, queue: Queue, entry: Entry, lost: Attempt | None) -> str:
        shard = int(entry.place.pk.rsplit("#", 1)[1])
        carried = [
            *(shard, entry.place.sk, entry.id, entry.nonce, entry.token, entry.version),
            *(entry.due, entry.since, entry.until, entry.owner, entry.enqueued_at, entry.correlation_id),
            [lost.number, lost.version, lost.owner, lost.started_at, lost.ended_at, lost.error_type, lost.error]
            if lost
            else None,
        ]
        payload = _encoded(json.dumps(carried, ensure_ascii=False, separators=(",", ":")).encode())
        return f"c1.{payload}.{self._seal(queue, payload)}"

    def read(self, queue: Queue, handle: str) -> ClaimHandle:
        """Raises InvalidClaim for anything that `write` did not write for this tenant's queue."""
        if len(handle) > MAX_HANDLE or not _HANDLE.fullmatch(handle):
            raise InvalidClaim
        _, payload, seal = handle.split(".")
        if not hmac.compare_digest(seal, self._seal(queue, payload)):
            raise InvalidClaim
        shard, sk, id_, nonce, token, version, due, since, until, owner, enqueued_at, correlation_id, lost = json.loads(
            urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
        )
        entry = Entry(
            Place(partition(queue.tenant, queue.spec.name, shard), sk),
            id=id_,
            nonce=nonce,
            enqueued_at=enqueued_at,
            expires_at=0,
            priority=0,
            correlation_id=correlation_id,
            due=due,
            version=version,
            token=token,
            until=until,
            since=since,
            owner=owner,
        )
        return ClaimHandle(entry, Attempt(*lost) if lost else None)

    def _seal(self, queue: Queue, payload: str) -> str:
        if self._key is None:
            self._key = self._ask()
        sealed = f"{queue.tenant}#{queue.spec.name}#{payload}".encode()
        return _encoded(hmac.digest(self._key, sealed, sha256)[:SEAL_BYTES])


def _encoded(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()
