"""Uploads beside the blobs in memory: for tests of what names them."""

from __future__ import annotations

from hashlib import sha256

from millrace.model.clock import Clock
from millrace.model.errors import BodyLost
from millrace.model.message import StoredBody
from millrace.model.uploads import UPLOAD_LIFE_MS, UploadTicket
from millrace.stores.memory.queue import MemoryBlobs

ADDRESS = "http://uploads.memory/"


class MemoryUploads:
    """Nothing is behind its URLs: `put` is the sender's transfer."""

    def __init__(self, blobs: MemoryBlobs, clock: Clock) -> None:
        self._blobs = blobs
        self._clock = clock
        self._since: dict[str, int] = {}
        self.transfers = 0

    def put(self, url: str, content: bytes) -> None:
        """As S3 does: only what the place is named by is taken."""
        place = url.removeprefix(ADDRESS)
        if sha256(content).hexdigest() != place.rsplit("/", 1)[1]:
            raise ValueError("The checksum does not match.")
        self.transfers += 1
        self._blobs.objects[place] = content
        self._since[place] = self._clock()

    def ticket(self, body: StoredBody) -> UploadTicket:
        return UploadTicket(f"{ADDRESS}{body.place}", {"Content-Length": str(body.size)})

    def holds(self, body: StoredBody, now: int) -> bool:
        content = self._blobs.objects.get(body.place)
        young = now - self._since.get(body.place, 0) < UPLOAD_LIFE_MS
        return content is not None and young and len(content) == body.size

    def copy(self, place: str, blob: str) -> None:
        self._blobs.put(blob, self._blobs.get(place))

    def link(self, blob: str) -> str:
        return f"{ADDRESS}{blob}"

    def part(self, blob: str, first: int, last: int) -> bytes:
        found = self._blobs.get(blob)[first : last + 1]
        if not found:
            raise BodyLost(f"There is no such part of {blob!r}.")
        return found
