"""Uploads in memory refuse what S3 refuses."""

from __future__ import annotations

from hashlib import sha256

import pytest

from millrace.model.errors import BodyLost
from millrace.model.uploads import UPLOAD_LIFE_MS, upload_of
from millrace.stores.memory.queue import MemoryBlobs
from millrace.stores.memory.uploads import MemoryUploads


def test_only_what_its_place_is_named_by_is_taken() -> None:
    uploads = MemoryUploads(MemoryBlobs(), lambda: 0)
    upload = upload_of("t", "Q", "a", sha256(b"data").digest(), 4)
    url = uploads.ticket(upload).url
    with pytest.raises(ValueError, match="checksum"):
        uploads.put(url, b"other")
    assert not uploads.holds(upload, 0)
    uploads.put(url, b"data")
    assert uploads.holds(upload, UPLOAD_LIFE_MS - 1)
    assert not uploads.holds(upload, UPLOAD_LIFE_MS)
    uploads.copy(upload.place, "t/Q/id/hash")
    assert uploads.part("t/Q/id/hash", 0, 1) == b"da"
    for read in (lambda: uploads.copy("none", "b"), lambda: uploads.part("t/Q/id/hash", 9, 9)):
        with pytest.raises(BodyLost):
            read()
