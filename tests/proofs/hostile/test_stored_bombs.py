"""Bodies at rest that were tampered with: refused, and never unpacked beyond what was accepted."""

from __future__ import annotations

import tracemalloc
import zlib

import pytest

from millrace.engine.bodies import Bodies
from millrace.engine.queue import Runtime
from millrace.model.errors import BodyLost
from millrace.model.message import Body, Message, Place
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.conftest import NOON

BOMB = zlib.compress(bytes(64 * 1024 * 1024), 9)


def _bodies(blobs: MemoryBlobs) -> Bodies:
    return Runtime(MemoryStore(), blobs, clock=lambda: NOON).bodies


def _message(body: Body) -> Message:
    return Message("m", "t", "q", "n", Place("p", "s"), body, "text/plain", 0, 0, 0)


@pytest.mark.parametrize("blob", ["", "t/q/m/n"])
def test_a_bomb_is_not_unpacked(blob: str) -> None:
    blobs = MemoryBlobs()
    blobs.put("t/q/m/n", BOMB)
    body = Body(b"" if blob else BOMB, "zlib", blob=blob, size=1_000)
    tracemalloc.start()
    with pytest.raises(BodyLost):
        _bodies(blobs).read(_message(body))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1024 * 1024


@pytest.mark.parametrize("laid", [b"", b"\x00", b"not zlib", zlib.compress(b"short"), zlib.compress(b"x" * 2_000)])
def test_other_bytes_are_no_body(laid: bytes) -> None:
    with pytest.raises(BodyLost):
        _bodies(MemoryBlobs()).read(_message(Body(laid, "zlib", size=1_000)))


@pytest.mark.parametrize("size", [512, 100_000, 6 * 1024 * 1024])
def test_what_was_accepted_comes_back_whole(size: int) -> None:
    bodies, data = _bodies(MemoryBlobs()), bytes(range(256)) * (size // 256)
    assert bodies.read(_message(bodies.keep(bodies.encode(data), data, "t/q/m"))) == data
