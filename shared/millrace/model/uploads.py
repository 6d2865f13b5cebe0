"""Bodies too large for a request: their sender puts them into the bucket first, then enqueues what names them.

The place of an upload says whose it is and what is in it: tenant, queue, token, SHA-256. Whoever asks gets a place of
its own, so nobody can name another's upload; and the URL that it writes by is bound to size and checksum, so that
nothing else can ever lie there. The message gets a copy under its own id, which no URL was ever given out for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from millrace.model.clock import DAY, MINUTE
from millrace.model.message import StoredBody
from millrace.model.values import dataclass

#: Uploads lie below this in the bucket, and go by a rule of their own; no tenant is called so.
STAGE = "_uploads"
#: The largest body that a queue can take.
MAX_UPLOAD_BYTES = 100 * 1024 * 1024
#: How long an upload may be named by a message; the bucket forgets it after a day or two.
UPLOAD_LIFE_MS = DAY
#: How long a transfer may be begun by a URL.
URL_LIFE_MS = 15 * MINUTE


@dataclass(frozen=True, slots=True)
class UploadTicket:
    """How to put an upload into its place."""

    url: str
    headers: Mapping[str, str]  #: to be sent exactly so
    method: str = "PUT"


class Uploads(Protocol):
    """Where uploads lie, beside the blobs."""

    def ticket(self, body: StoredBody) -> UploadTicket:
        """A URL to write these bytes by, and no others."""
        ...

    def holds(self, body: StoredBody, now: int) -> bool:
        """Whether these bytes lie in their place, and not for longer than an upload lives. Raises StoreUnavailable."""
        ...

    def copy(self, place: str, blob: str) -> None:
        """Give a blob what lies in a place. Raises BodyLost, StoreUnavailable."""
        ...

    def link(self, blob: str) -> str:
        """A URL to read a blob by, as it is stored."""
        ...

    def part(self, blob: str, first: int, last: int) -> bytes:
        """Bytes of a blob, as it is stored, both ends included. Raises BodyLost, StoreUnavailable."""
        ...


def upload_of(tenant: str, queue: str, token_id: str, sha256: bytes, size: int) -> StoredBody:
    """An upload by what its sender says of it."""
    return StoredBody(f"{STAGE}/{tenant}/{queue}/{token_id}/{sha256.hex()}", size, sha256)
