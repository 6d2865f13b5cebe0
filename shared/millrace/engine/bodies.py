"""Bodies of messages: the one place where they are written down and read back.

A large body is a blob under `{tenant}/{queue}/{message id}/{hash of what is stored}`. A repeat of a message names the
same blob, so it leaves nothing behind; two messages never share one, so that a blob may go with its message; and since
its name is the hash of its content, writing it again changes nothing, and lets its time in the bucket begin anew.
"""

from __future__ import annotations

from dataclasses import replace

from millrace.model.body import INLINE_LIMIT, Blobs, blob_name, digest, pack, unpack
from millrace.model.errors import BodyLost
from millrace.model.message import Body, Message


class Bodies:
    """All bodies of one process's queues."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def encode(self, data: bytes) -> Body:
        """What would be stored of `data`; nothing is written yet."""
        return pack(data)

    def keep(self, body: Body, data: bytes, folder: str) -> Body:
        """The encoded body as a message carries it: itself, or a pointer to the blob that this call has written.

        Comes before the message's commit, so that no message points to a blob that was never there.
        """
        if len(body.data) <= INLINE_LIMIT:
            return body
        blob = f"{folder}/{blob_name(body.data)}"
        self._blobs.put(blob, body.data)
        return replace(body, data=b"", blob=blob, digest=digest(data))

    def read(self, message: Message) -> bytes:
        """The bytes exactly as received: from the message, or one blob read.

        Raises BodyLost where they are gone, StoreUnavailable where nobody can tell.
        """
        body = message.body
        data = unpack(self._blobs.get(body.blob) if body.blob else body.data, body)
        if data is None:
            raise BodyLost(f"{body.blob or message.id!r} does not hold the {body.size} bytes that were accepted.")
        return data

    def is_body_of(self, message: Message, data: bytes) -> bool:
        """Whether a message has this body; a blob is judged by its size and digest, without reading it."""
        body = message.body
        if body.size != len(data):
            return False
        return body.digest == digest(data) if body.blob else self.read(message) == data
