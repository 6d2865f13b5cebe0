"""The `queue` target: a chained message is made exactly once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millrace.engine.claim import claim
from millrace.engine.status import MessageStatus, status
from millrace.model.errors import StoreUnavailable
from tests.conftest import Bench
from tests.worker.definitions import TYPE
from tests.worker.rigs import TargetRig, put_n

CHAIN = f"""
queue Jobs {{ {TYPE}  map_to: queue Next {{ n: n + 1 }} }}
queue Next {{ {TYPE}  key: string(n)  drained_by: api }}
"""


def test_a_chained_message_keeps_its_correlation_and_origin(bench: Bench) -> None:
    rig = TargetRig(bench, CHAIN)
    message_id = put_n(rig.queue(), 1, correlation_id="corr-7")
    rig.drain()
    (held,) = claim(rig.queue("Next"), owner="test").claims
    assert (held.message.correlation_id, held.message.origin, held.entry.key) == ("corr-7", message_id, "2")
    assert json.loads(held.message.body.data) == {"n": 2}


def test_chaining_is_exactly_once_whatever_is_repeated(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker dies after the chained message was accepted and before its ack: the next run meets it."""
    rig = TargetRig(bench, CHAIN)
    message_id = put_n(rig.queue())
    real = bench.store.end_entries
    monkeypatch.setattr(bench.store, "end_entries", lambda entries: _silent())
    rig.drain()
    monkeypatch.setattr(bench.store, "end_entries", real)
    bench.clock.forward(31_000)
    rig.drain()
    assert status(rig.queue(), message_id).status is MessageStatus.DONE
    assert len(claim(rig.queue("Next"), owner="test", limit=10).claims) == 1


def _silent() -> Any:

    raise StoreUnavailable("no answer")


def test_a_full_queue_holds_the_chain_up_uncharged(bench: Bench) -> None:
    rig = TargetRig(bench, CHAIN.replace("drained_by: api", "drained_by: api  retention { max_depth: 1 }"))
    first, second = put_n(rig.queue(), 1), put_n(rig.queue(), 2)
    rig.drain()
    statuses = {status(rig.queue(), message_id).status for message_id in (first, second)}
    assert statuses == {MessageStatus.DONE, MessageStatus.SCHEDULED}
    (waiting,) = [m for m in (first, second) if status(rig.queue(), m).status is MessageStatus.SCHEDULED]
    assert rig.entry(waiting).attempts == 0
