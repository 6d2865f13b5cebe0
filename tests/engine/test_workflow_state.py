"""Workflow state: readable and writable only under a live claim."""

from __future__ import annotations

import pytest

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack, nack
from millrace.engine.workflow_state import read_workflow_state, write_workflow_state
from millrace.model.errors import InvalidField, StaleClaim, StaleState
from millrace.model.message import Draft
from millrace.model.queue_spec import Idempotency
from tests.conftest import Bench
from tests.engine.steps import BROKEN, EXACT, only, put_one


def test_the_workflow_state_is_guarded_by_claim_and_version(bench: Bench) -> None:
    queue = bench.queue(lease_seconds=5, delivery=EXACT)
    put_one(queue)
    first = only(claim(queue, owner="a"))
    assert read_workflow_state(queue, first.entry).version == 0
    assert write_workflow_state(queue, first.entry, b'{"step": 1}', 0).version == 1
    with pytest.raises(StaleState) as caught:
        write_workflow_state(queue, first.entry, b'{"step": 9}', 0)
    assert caught.value.current == 1
    nack(queue, first.entry, first.message, BROKEN)
    bench.clock.forward(1_000)
    second = only(claim(queue, owner="b"))
    assert read_workflow_state(queue, second.entry).content == b'{"step": 1}'
    with pytest.raises(StaleClaim):
        write_workflow_state(queue, first.entry, b'{"step": 2}', 1)
    bench.clock.forward(5_000)
    with pytest.raises(StaleClaim):
        write_workflow_state(queue, second.entry, b'{"step": 2}', 1)
    with pytest.raises(InvalidField, match="state"):
        write_workflow_state(queue, second.entry, b"x" * 65_537, 1)


def test_a_message_sent_again_after_its_window_begins_with_an_empty_state(bench: Bench) -> None:
    queue = bench.queue(idempotency=Idempotency(window_seconds=60))
    for _ in range(2):
        enqueue(queue, Draft(b"x", idempotency_key="again"))
        (held,) = claim(queue, owner="w").claims
        assert read_workflow_state(queue, held.entry).version == 0
        assert write_workflow_state(queue, held.entry, b"step 1", 0).version == 1
        assert write_workflow_state(queue, held.entry, b"step 2", 1).version == 2
        assert read_workflow_state(queue, held.entry).content == b"step 2"
        ack(queue, [held.entry])
        bench.clock.forward(60_000)
