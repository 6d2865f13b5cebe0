"""The engine does what it promises, in any order of its operations: on both stores, by one reference."""

from __future__ import annotations

import pytest
from mypy_boto3_dynamodb import DynamoDBClient

from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryStore
from tests.proofs.state_machine.machine import QueueMachine, run
from tests.proofs.state_machine.mutants import MUTANTS
from tests.proofs.state_machine.senders import Wish
from tests.proofs.state_machine.soak import hunt
from tests.proofs.state_machine.world import AGE_MS, SHAPES


def test_the_engine_keeps_its_promises_in_memory() -> None:
    run(lambda _clock: MemoryStore(), examples=50, steps=40)


def test_the_engine_keeps_its_promises_on_dynamodb(engine_client: DynamoDBClient, tables: TableNames) -> None:
    run(lambda clock: DynamoStore(engine_client, tables, clock=clock), examples=2, steps=18)


@pytest.mark.parametrize(
    "name", ["document of another life (found by the machine)", "release charges an attempt", "second of a key"]
)
def test_a_broken_promise_is_noticed(name: str) -> None:
    """The machine can fail; `make soak` tries every mutant."""
    assert hunt(MUTANTS[name], examples=100, seed=5) is not None


def test_a_message_that_is_not_handed_out_is_noticed_after_any_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Liveness by itself, before anybody claims: a healthy message behind one that has grown too old."""
    machine = type("QueueMachineHere", (QueueMachine,), {"make_store": staticmethod(lambda _clock: MemoryStore())})()
    machine.begin(SHAPES[0], 1)
    wish = Wish(same=None, key="k1", priority=None, delay=0, project=None, labels=())
    machine.send(0, wish)
    machine.world.clock.forward(AGE_MS)
    machine.send(0, wish)
    machine.what_may_run_is_handed_out_to_whoever_asks()
    MUTANTS["what is to be buried hides the rest"](monkeypatch)
    with pytest.raises(AssertionError, match="may run and is not handed out"):
        machine.what_may_run_is_handed_out_to_whoever_asks()
