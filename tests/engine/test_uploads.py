"""Bodies that lie in the bucket: copied for their message, and out of reach where there is no bucket."""

from __future__ import annotations

from hashlib import sha256

import pytest

from millrace.engine.uploads import UploadedBodies
from millrace.model.errors import StoreUnavailable, UploadMissing
from millrace.model.message import Body, StoredBody
from millrace.model.uploads import UPLOAD_LIFE_MS, upload_of
from millrace.stores.memory.queue import MemoryBlobs
from millrace.stores.memory.uploads import MemoryUploads

UPLOAD = upload_of("t", "Q", "token", sha256(b"data").digest(), 4)


def test_a_message_gets_a_copy_under_its_own_id_and_the_hash() -> None:
    now = [0]
    blobs = MemoryBlobs()
    uploads = MemoryUploads(blobs, lambda: now[0])
    bodies = UploadedBodies(uploads)
    ticket = bodies.ticket(UPLOAD, 0)
    assert ticket is not None
    with pytest.raises(UploadMissing):
        bodies.keep(UPLOAD, "t/Q/id", 0)
    uploads.put(ticket.url, b"data")
    assert bodies.ticket(UPLOAD, 0) is None
    body = bodies.keep(UPLOAD, "t/Q/id", 0)
    assert body == Body(blob=f"t/Q/id/{UPLOAD.digest.hex()}", size=4, digest=UPLOAD.digest)
    assert blobs.get(body.blob) == b"data"
    assert bodies.part(body, 1, 2) == b"at"
    with pytest.raises(UploadMissing):
        bodies.keep(UPLOAD, "t/Q/other", UPLOAD_LIFE_MS)
    older = StoredBody(body.blob, 4, body.digest)
    assert bodies.keep(older, "t/Q/again", UPLOAD_LIFE_MS).blob.startswith("t/Q/again/"), "a message's own does not age"


def test_only_a_blob_as_it_was_received_lies_alone() -> None:
    bodies = UploadedBodies(MemoryUploads(MemoryBlobs(), lambda: 0))
    assert bodies.alone(Body(blob="b"))
    assert not bodies.alone(Body(b"data"))
    assert not bodies.alone(Body(blob="b", packing="zlib"))


def test_without_a_bucket_nothing_is_uploaded() -> None:
    bodies = UploadedBodies(None)
    assert not bodies.alone(Body(blob="b"))
    with pytest.raises(StoreUnavailable):
        bodies.ticket(UPLOAD, 0)
    with pytest.raises(StoreUnavailable):
        bodies.link(Body(blob="b"))
