"""Bodies that lie in the bucket exactly as received: uploads on their way in, large bodies on their way out."""

from __future__ import annotations

from millrace.model.errors import StoreUnavailable, UploadMissing
from millrace.model.message import Body, Message, StoredBody
from millrace.model.uploads import STAGE, Uploads, UploadTicket


class UploadedBodies:
    """All of one process's queues. Raises StoreUnavailable where the process has no bucket for uploads."""

    def __init__(self, uploads: Uploads | None) -> None:
        self._maybe = uploads

    @property
    def _uploads(self) -> Uploads:
        if self._maybe is None:
            raise StoreUnavailable("There is no bucket for uploads.")
        return self._maybe

    def ticket(self, upload: StoredBody, now: int) -> UploadTicket | None:
        """How to transfer an upload; None where it was transferred before."""
        return None if self._uploads.holds(upload, now) else self._uploads.ticket(upload)

    def keep(self, body: StoredBody, folder: str, now: int) -> Body:
        """The body as its message carries it: a copy of its own, that nobody was ever given a URL to write to.

        Comes before the message's commit. Raises UploadMissing where an upload is not there (any longer), BodyLost
        where the body of an older message is not.
        """
        if body.place.startswith(f"{STAGE}/") and not self._uploads.holds(body, now):
            raise UploadMissing
        blob = f"{folder}/{body.digest.hex()}"
        self._uploads.copy(body.place, blob)
        return Body(blob=blob, size=body.size, digest=body.digest)

    def alone(self, body: Body) -> bool:
        """Whether the bytes of a body are those of its blob, and can be read there."""
        return self._maybe is not None and bool(body.blob) and not body.packing and not body.encrypted

    def part(self, body: Body, first: int, last: int) -> bytes:
        """Some bytes of a body that lies alone, both ends included. Raises BodyLost, StoreUnavailable."""
        return self._uploads.part(body.blob, first, last)

    def link(self, body: Body) -> str:
        """A URL to read a body by that lies alone."""
        return self._uploads.link(body.blob)


def stored_again(message: Message) -> StoredBody:
    """The body of a message that lies alone, for another message."""
    body = message.body
    return StoredBody(body.blob, body.size, body.digest)
