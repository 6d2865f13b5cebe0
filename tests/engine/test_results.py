"""Results: read as they were given, whoever may read them; none where nothing was kept."""

from __future__ import annotations

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack
from millrace.engine.results import read_result, with_result
from millrace.engine.status import status
from millrace.model.message import Draft
from tests.conftest import Bench


def test_a_repeat_of_an_encrypted_queue_has_its_result_once_it_is_asked_for(bench: Bench) -> None:
    for encrypt in ("", "alias/a"):
        queue = bench.queue(f"Jobs{len(encrypt)}", encrypt=encrypt)
        enqueue(queue, Draft(b"x", idempotency_key="k"))
        (held,) = claim(queue, owner="w").claims
        assert ack(queue, [held.entry], [b"42"]) == [None]
        again = enqueue(queue, Draft(b"x", idempotency_key="k"))
        assert (again.duplicate, again.result) == (True, None if encrypt else b"42")
        assert with_result(queue, again).result == b"42"
        assert read_result(queue, status(queue, held.entry.id).result) == b"42"


def test_where_nothing_was_kept_there_is_none(memory_bench: Bench) -> None:
    queue = memory_bench.queue(encrypt="alias/a")
    enqueue(queue, Draft(b"x", idempotency_key="k"))
    (held,) = claim(queue, owner="w").claims
    ack(queue, [held.entry], [None])
    assert read_result(queue, status(queue, held.entry.id).result) is None
    again = enqueue(queue, Draft(b"x", idempotency_key="k"))
    assert with_result(queue, again) == again
