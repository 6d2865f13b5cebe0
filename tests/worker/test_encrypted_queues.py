"""A queue whose key fails beside others: nothing is charged, nothing healthy waits, and what is lost is told."""

from __future__ import annotations

from typing import Any

from millrace.engine.data_keys import USE_MS
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.results import read_result
from millrace.engine.status import MessageStatus, status
from millrace.model.message import DeadLetterReason
from tests.conftest import Bench
from tests.worker.conftest import put
from tests.worker.definitions import TYPE
from tests.worker.rigs import TargetRig, put_n

ENCRYPTED = 'encrypt: "alias/shop-{tenant}"'
ONE = f"""
queue Jobs {{ {TYPE}  {ENCRYPTED}  delivery {{ max_attempts: 2 }}  map_to: command Thing.Do {{ n: n }} }}
queue Plain {{ {TYPE}  map_to: command Thing.Do {{ n: n }} }}
"""


class Rig(TargetRig):
    def __init__(self, bench: Bench, queues: str = ONE) -> None:
        super().__init__(bench, queues)
        self.key = f"alias/shop-{bench.tenant}"
        self.seen: list[int] = []
        self.commands.command("Thing.Do")(self._do)

    def _do(self, given: dict[str, int]) -> dict[str, int]:
        self.seen.append(given["n"])
        return {"did": given["n"]}

    def forget_keys(self) -> None:
        """Until no process has a data key any more."""
        self.bench.clock.forward(USE_MS)


def test_a_message_runs_and_its_result_is_read(bench: Bench) -> None:
    rig = Rig(bench)
    message_id = put_n(rig.queue())
    rig.drain()
    assert read_result(rig.queue(), status(rig.queue(), message_id).result) == b'{"did":1}'


def test_while_a_key_is_disabled_nothing_is_charged_and_the_others_run(bench: Bench) -> None:
    rig = Rig(bench)
    message_id = put_n(rig.queue())
    plain_id = put_n(rig.queue("Plain"))
    rig.forget_keys()
    bench.keys.disable(rig.key)
    for _ in range(6):  # more often than it has attempts
        rig.drain()
        rig.drain("Plain")
        bench.clock.forward(100_000)
    waiting = status(rig.queue(), message_id)
    assert waiting.entry is not None
    assert (waiting.entry.attempts, waiting.history, waiting.entry.deliveries) == (0, (), 6)
    assert status(rig.queue("Plain"), plain_id).status is MessageStatus.DONE
    bench.keys.enable(rig.key)
    rig.drain()
    assert status(rig.queue(), message_id).status is MessageStatus.DONE
    assert len(rig.seen) == 2


def test_a_healthy_message_runs_beside_one_whose_key_fails(bench: Bench) -> None:
    """The first was encrypted under a data key that is not to be had now, the second under one that is known."""
    rig = Rig(bench)
    hidden = put_n(rig.queue())
    rig.forget_keys()
    shown = put_n(rig.queue())
    bench.keys.disable(rig.key)
    rig.drain()
    found = [status(rig.queue(), message_id).status for message_id in (hidden, shown)]
    assert found == [MessageStatus.SCHEDULED, MessageStatus.DONE]


def test_without_its_key_a_message_is_a_dead_letter_with_its_encrypted_bytes(bench: Bench) -> None:
    rig = Rig(bench)
    message_id = put_n(rig.queue())
    kept = status(rig.queue(), message_id).message.body
    rig.forget_keys()
    bench.keys.delete(rig.key)
    rig.drain()
    (dead,) = list_dead_letters(rig.queue()).items
    assert (dead.reason, dead.error_type, dead.message.body) == (DeadLetterReason.BODY_LOST, "BodyLost", kept)
    assert rig.key in dead.error
    assert rig.seen == []


def test_a_fifo_queue_stands_still_and_keeps_its_order(bench: Bench) -> None:
    fifo = f"queue Jobs {{ {TYPE}  {ENCRYPTED}  ordering: fifo  map_to: command Thing.Do {{ n: n }} }}"
    rig = Rig(bench, fifo)
    put(rig.queue(), b'{"n":1}')
    rig.forget_keys()
    put(rig.queue(), b'{"n":2}')
    bench.keys.disable(rig.key)
    rig.drain()
    assert rig.seen == []
    bench.keys.enable(rig.key)
    bench.clock.forward(100_000)
    rig.drain()
    assert rig.seen == [1, 2]


def test_progress_of_targets_that_cannot_be_read_charges_nothing(bench: Bench) -> None:
    several = f"""queue Jobs {{ {TYPE}  {ENCRYPTED}  delivery {{ max_attempts: 3  initial_backoff_ms: 1000 }}
      map_to: command Thing.Do {{ n: n }}
      map_to: command Thing.Fail {{ n: n }}
    }}"""
    rig = Rig(bench, several)
    failing = [True]

    def fail(_given: Any) -> None:
        if failing:
            raise ValueError("no")

    rig.commands.command("Thing.Fail")(fail)
    message_id = put_n(rig.queue())
    rig.forget_keys()
    rig.drain()  # the state is written under another data key than the body
    failing.clear()
    entry = status(rig.queue(), message_id).entry
    assert entry is not None
    assert entry.attempts == 1
    rig.forget_keys()
    rig.bench.runtime.bodies.read(status(rig.queue(), message_id).message)  # its data key is known, the state's is not
    bench.keys.disable(rig.key)
    rig.drain()
    entry = status(rig.queue(), message_id).entry
    assert entry is not None
    assert (entry.attempts, entry.deliveries) == (1, 2)
    bench.keys.enable(rig.key)
    bench.clock.forward(100_000)
    rig.drain()
    assert (status(rig.queue(), message_id).status, rig.seen) == (MessageStatus.DONE, [1])


def test_a_chain_waits_uncharged_for_the_next_queues_key(bench: Bench) -> None:
    chain = f"""
    queue Jobs {{ {TYPE}  map_to: queue Next }}
    queue Next {{ {TYPE}  {ENCRYPTED}  drained_by: api }}
    """
    rig = Rig(bench, chain)
    message_id = put_n(rig.queue())
    bench.keys.disable(rig.key)
    rig.drain()
    found = status(rig.queue(), message_id)
    assert found.entry is not None
    assert (found.status, found.entry.attempts) == (MessageStatus.SCHEDULED, 0)
    bench.keys.enable(rig.key)
    bench.clock.forward(100_000)
    rig.drain()
    assert status(rig.queue(), message_id).status is MessageStatus.DONE
    assert rig.queue("Next").state(fresh=True).depth == 1
