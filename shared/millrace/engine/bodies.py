"""Bodies of messages: the one place where they are written down and read back.

A large body is a blob under `{tenant}/{queue}/{message id}/{nonce}/{hash of what is stored}`. No two acceptances of a
message share one, so that it may go with its own: when its message is erased, or when its sender finds that it is a
repeat. Its name is the hash of its content, so that it can be told from any other.

Where a queue has a dictionary, what stays in the table is packed with it; its name is in the message. What an
encrypted queue stores was packed first, and encrypted then.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from millrace.engine.dictionaries import Dictionaries
from millrace.engine.encryption import Encryption
from millrace.model.body import INLINE_LIMIT, PACK_FROM, Blobs, blob_name, digest, pack, unpack
from millrace.model.errors import BodyLost, StoreUnavailable
from millrace.model.message import Body, Message

#: A message whose body cannot be read now (S3, its dictionary or its key does not answer) comes back after 5, 10, 20,
#: 40, then every 80 seconds.
FIRST_WAIT_MS, MOST_DOUBLINGS = 5_000, 4


def wait_to_read(deliveries: int) -> int:
    """How long a message waits that was claimed so often and cannot be read now: each time costs its writes."""
    return FIRST_WAIT_MS << min(max(0, deliveries - 1), MOST_DOUBLINGS)


class Bodies:
    """All bodies of one process's queues."""

    def __init__(self, blobs: Blobs, dictionaries: Dictionaries, encryption: Encryption) -> None:
        self._blobs = blobs
        self._dictionaries = dictionaries
        self._encryption = encryption

    def encode(self, data: bytes, tenant: str = "", queue: str = "", dictionary: str = "") -> Body:
        """What would be stored of `data`; nothing is written yet.

        `dictionary` is the name of the queue's own: without it, or where it cannot be had, the body is packed alone.
        """
        if not dictionary or len(data) < PACK_FROM:
            return pack(data)
        return pack(data, self._dictionaries.to_pack(tenant, queue, dictionary))

    def keep(self, body: Body, data: bytes, folder: str) -> Body:
        """The encoded body as a message carries it: itself, or a pointer to the blob that this call has written.

        Comes before the message's commit, so that no message points to a blob that was never there.
        """
        if len(body.data) <= INLINE_LIMIT:
            return body
        blob = f"{folder}/{blob_name(body.data)}"
        self._blobs.put(blob, body.data)
        return replace(body, data=b"", blob=blob, digest=b"" if body.encrypted else digest(data))

    def read(self, message: Message) -> bytes:
        """The bytes exactly as received: from the message, or one blob read; the first of a dictionary reads that.

        Raises BodyLost where they are gone, StoreUnavailable where nobody can tell; of an encrypted one KeyLost and
        KeyUnavailable.
        """
        body = message.body
        if message.erased:
            raise BodyLost(f"Message {message.id!r} was erased.")
        dictionary = None
        if body.dictionary:
            dictionary = self._dictionaries.to_unpack(message.tenant, message.queue, body.dictionary)
        stored = self._blobs.get(body.blob) if body.blob else body.data
        if body.encrypted:
            stored = self._encryption.decrypt_body(stored, message)
        data = unpack(stored, body, dictionary)
        if data is None:
            raise BodyLost(f"{body.blob or message.id!r} does not hold the {body.size} bytes that were accepted.")
        return data

    def erase(self, body: Body) -> None:
        """Delete the blob of a body, where it has one. Raises StoreUnavailable where nobody can tell."""
        if body.blob:
            self._blobs.delete(body.blob)

    def drop(self, body: Body) -> None:
        """Take back a blob that no message will point to. One that stays behind goes with its days in the bucket."""
        with suppress(StoreUnavailable):
            self.erase(body)

    def is_body_of(self, message: Message, data: bytes) -> bool:
        """Whether a message has this body; by its size and digest, where it has one, without reading anything.

        An encrypted one is read. Of an erased message, or one whose key is gone, nobody can tell: a repeat of it counts
        as the same.
        """
        body = message.body
        if message.erased:
            return True
        if body.size != len(data):
            return False
        try:
            return body.digest == digest(data) if body.digest else self.read(message) == data
        except BodyLost:
            if body.encrypted:
                return True
            raise
