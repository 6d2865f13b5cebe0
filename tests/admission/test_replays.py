"""What a replay hands in: the message as it was, held against the definition of the queue that it goes to."""

from __future__ import annotations

import json

import pytest

from millrace.admission.admit import accept
from millrace.admission.replays import replay_message
from millrace.definitions import Definitions
from millrace.definitions.language.compiler import compile_files
from millrace.engine.claim import claim
from millrace.engine.enqueue import Receipt
from millrace.engine.finish import ack
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import MessageStatus, status
from millrace.model.errors import InvalidMessage
from millrace.model.journal import EFFECTS
from millrace.model.message import Draft, Message
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.conftest import Clock

TEXT = b"""
app Rule {
  queue Orders {
    message_type { payload: { id: string  kind?: string } }
    idempotency { key: payload.id  window_seconds: 1 }
    fed_by: api  drained_by: api
  }
  queue Accounts {
    message_type { payload: { id: string  account?: string } }
    ordering: per_key(payload.account)
    fed_by: api  drained_by: api
  }
  queue Wanted { message_type { payload: json }  filter: payload.kind != "noise"  fed_by: api  drained_by: api }
  queue Numbers { message_type { payload: int }  fed_by: api  drained_by: api }
}
"""


@pytest.fixture
def runtime(memory_store: MemoryStore, clock: Clock) -> Runtime:
    return Runtime(memory_store, MemoryBlobs(), clock=clock)


@pytest.fixture(scope="module")
def definitions() -> Definitions:
    compiled = compile_files([("rule.millrace", TEXT)])
    assert compiled.definitions is not None, compiled.findings
    return Definitions(compiled.definitions)


@pytest.fixture
def message(runtime: Runtime, definitions: Definitions) -> Message:
    payload = {"id": "7", "kind": "noise", "account": "a1"}
    draft = Draft(
        json.dumps({"payload": {name: payload[name] for name in ("id", "kind")}}).encode(),
        headers={"x-a": "1", EFFECTS: "earlier"},
        correlation_id="c-1",
        project="billing",
    )
    queue = runtime.queue("acme", definitions.queue("Orders").spec)
    found = accept(queue, definitions.queue("Orders"), draft)
    return runtime.store.get_messages([found.message_id])[found.message_id]


def replayed(
    runtime: Runtime, definitions: Definitions, message: Message, to: str, job: str = "j"
) -> tuple[Queue, Receipt, bool]:
    queue = runtime.queue("acme", definitions.queue(to).spec)
    return (queue, *replay_message(queue, definitions.queue(to), message, job))


def test_the_key_that_an_expression_finds_does_not_make_it_its_own_repeat(
    runtime: Runtime, definitions: Definitions, message: Message
) -> None:
    queue, receipt, filtered = replayed(runtime, definitions, message, "Orders")
    made = runtime.store.get_messages([receipt.message_id])[receipt.message_id]
    assert (filtered, receipt.duplicate, made.origin) == (False, False, message.id)
    assert (made.headers, made.correlation_id, made.project) == ({"x-a": "1"}, "c-1", "billing")
    assert made.idempotency_key == ""
    assert queue.runtime.bodies.read(made) == queue.runtime.bodies.read(message)


def test_once_for_each_job_also_when_the_window_is_over(
    runtime: Runtime, definitions: Definitions, message: Message, clock: Clock
) -> None:
    queue, first, _ = replayed(runtime, definitions, message, "Orders")
    for held in claim(queue, owner="w", limit=10).claims:
        ack(queue, [held.entry])
    clock.forward(60_000)
    _, again, _ = replayed(runtime, definitions, message, "Orders")
    _, other, _ = replayed(runtime, definitions, message, "Orders", job="k")
    assert (again.message_id, again.duplicate) == (first.message_id, True)
    assert other.message_id != first.message_id


def test_another_queue_finds_its_own_key(runtime: Runtime, definitions: Definitions, message: Message) -> None:
    queue, receipt, _ = replayed(runtime, definitions, message, "Accounts")
    assert runtime.store.get_messages([receipt.message_id])[receipt.message_id].key == "(none)"
    assert status(queue, receipt.message_id).status is MessageStatus.READY


def test_what_the_queue_leaves_out_is_recorded_and_not_queued(
    runtime: Runtime, definitions: Definitions, message: Message
) -> None:
    queue, receipt, filtered = replayed(runtime, definitions, message, "Wanted")
    assert filtered
    assert status(queue, receipt.message_id).status is MessageStatus.FILTERED


def test_what_does_not_fit_the_type_is_refused(runtime: Runtime, definitions: Definitions, message: Message) -> None:
    with pytest.raises(InvalidMessage):
        replayed(runtime, definitions, message, "Numbers")
