"""Bodies too large for a request or an answer: uploaded before they are enqueued, downloaded under their claim.

The transfers themselves go to the bucket by presigned URLs, past the API, and carry no token.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from millrace.client.errors import AccessDenied, BodyDamaged
from millrace.client.steps import Reply, Send, Steps, exchange
from millrace.client.transport import Side
from millrace.http.event_body import MAX_BINARY_BYTES, MAX_ENCODED_BYTES, encoded_size

if TYPE_CHECKING:
    from hashlib import _Hash

#: Content types that reach the API as text; other bodies are carried as base64.
TEXT_TYPES = ("text/", "application/json", "application/javascript", "application/xml")
#: A larger body is downloaded from where it lies.
LINK_FROM = 4 * 1024 * 1024
#: Of a download in one request.
PART_BYTES = 8 * 1024 * 1024
TRANSFER_S = 120.0


def fits_request(content: bytes | bytearray | memoryview, content_type: str) -> bool:
    """Whether a body is carried by a request."""
    if len(content) <= MAX_BINARY_BYTES:
        return True
    return content_type.lower().startswith(TEXT_TYPES) and encoded_size(bytes(content)) <= MAX_ENCODED_BYTES


def upload(side: Side, queue: str, content: bytes, idempotency_key: str | None) -> Steps[dict[str, Any]]:
    """Have these bytes in the bucket, where they are not there already: what names them in a message."""
    named = {"sha256": sha256(content).hexdigest(), "size": len(content)}
    asked = {**named, "idempotency_key": idempotency_key} if idempotency_key else named
    content_type = {"Content-Type": "application/json"}
    path, document = f"/v1/queues/{queue}/uploads", json.dumps(asked).encode()
    ticket = yield from _asked(side, Send("POST", path, headers=content_type, content=document))
    if not ticket["uploaded"]:
        method, url, headers = ticket["method"], ticket["url"], ticket["headers"]
        send = Send(method, "", headers=headers, content=content, timeout_s=TRANSFER_S, url=url)
        yield from exchange(side.account.retries, send, repeatable=True)
    return named


def _asked(side: Side, send: Send) -> Steps[Mapping[str, Any]]:
    reply = yield from exchange(side.account.retries, send, repeatable=True)
    found: Mapping[str, Any] = json.loads(reply.content)
    return found


@dataclass(slots=True)
class LinkedBody:
    """A claimed message's large body, part by part from where it lies, held against its digest at the end."""

    side: Side
    queue: str
    claim: str
    size: int
    part_bytes: int = PART_BYTES
    read: int = 0
    url: str = ""
    digest: str = ""
    _hash: _Hash = field(default_factory=sha256)

    def ask(self) -> Steps[bool]:
        """Ask where it lies; False where it can be had from the API alone. Raises ClaimLost."""
        send = Send("GET", f"/v1/queues/{self.queue}/download", headers={"X-Millrace-Claim": self.claim})
        found = yield from _asked(self.side, send)
        self.url, self.digest = found["url"] or "", found["digest"] or ""
        return bool(self.url)

    def following(self) -> Steps[bytes | None]:
        if self.read >= self.size:
            if self._hash.hexdigest()[: len(self.digest)] != self.digest:
                raise BodyDamaged(f"The download of {self.size} bytes is not what was sent.")
            return None
        part = (yield from self._part()).content
        self._hash.update(part)
        self.read += len(part)
        return part

    def _part(self) -> Steps[Reply]:
        try:
            return (yield from self._get())
        except AccessDenied:  # the URL's time is over
            yield from self.ask()
            return (yield from self._get())

    def _get(self) -> Steps[Reply]:
        last = min(self.read + self.part_bytes, self.size) - 1
        send = Send("GET", "", headers={"Range": f"bytes={self.read}-{last}"}, timeout_s=TRANSFER_S, url=self.url)
        return (yield from exchange(self.side.account.retries, send, repeatable=True))
