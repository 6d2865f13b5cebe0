"""The plan: a message is rendered for each target, and each is retried on its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millrace.definitions import TargetKind
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.status import MessageStatus, status
from millrace.worker import Commands, Reject, Retry, RunContext
from tests.conftest import Bench
from tests.worker.conftest import put
from tests.worker.definitions import TYPE
from tests.worker.rigs import TargetRig, put_n

COMMAND = f"queue Jobs {{ {TYPE}  map_to: command Thing.Make {{ number: n  twice: n + n }} }}"


def test_a_message_that_is_not_its_type_is_rejected(bench: Bench) -> None:
    rig = TargetRig(bench, COMMAND)
    put(rig.queue(), b"not json")
    rig.drain()
    (dead_letter,) = list_dead_letters(rig.queue()).items
    assert dead_letter.error.startswith("The message does not fit its type")


def test_a_mapping_without_a_value_is_rejected(bench: Bench) -> None:
    rig = TargetRig(bench, f"queue Jobs {{ {TYPE}  map_to: command Thing.Make {{ who: name }} }}")
    put_n(rig.queue())
    rig.drain()
    (dead_letter,) = list_dead_letters(rig.queue()).items
    assert dead_letter.reason == "rejected"


# -- several ----------------------------------------------------------------------------------------------------


SEVERAL = f"""
queue Jobs {{ {TYPE}
  delivery {{ max_attempts: 4  initial_backoff_ms: 1000  backoff: none }}
  map_to: command One.Do {{ n: n }}
  map_to: command Two.Do {{ n: n }}
  map_to: command Three.Do {{ n: n }}
}}
"""


class Several(TargetRig):
    def __init__(self, bench: Bench) -> None:
        super().__init__(bench, SEVERAL)
        self.calls: dict[str, int] = {}
        self.failing: dict[str, list[Exception]] = {}
        for name in ("One.Do", "Two.Do", "Three.Do"):
            self.commands.command(name)(self._called(name))

    def _called(self, name: str) -> Any:
        def call(given: dict[str, int]) -> str:
            self.calls[name] = self.calls.get(name, 0) + 1
            if self.failing.get(name):
                raise self.failing[name].pop(0)
            return name

        return call


def test_each_target_is_retried_on_its_own(bench: Bench) -> None:
    rig = Several(bench)
    rig.failing = {"Two.Do": [ValueError("1"), ValueError("2")], "Three.Do": [ValueError("1")]}
    message_id = put_n(rig.queue())
    for _ in range(3):
        rig.drain()
        bench.clock.forward(4_000)
    assert rig.calls == {"One.Do": 1, "Two.Do": 3, "Three.Do": 2}
    assert status(rig.queue(), message_id).status is MessageStatus.DONE


def test_when_all_succeed_nothing_is_written_besides_the_ack(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Several(bench)
    message_id = put_n(rig.queue())
    monkeypatch.setattr(bench.store, "put_workflow_state", None)
    rig.drain()
    result = status(rig.queue(), message_id).result
    assert result is not None
    assert set(json.loads(result.snapshot)) == {"command:One.Do", "command:Two.Do", "command:Three.Do"}


def test_a_rejecting_target_does_not_keep_the_others_from_their_work(bench: Bench) -> None:
    rig = Several(bench)
    rig.failing = {"One.Do": [Reject("never")], "Two.Do": [Retry(after=1)]}
    put_n(rig.queue())
    rig.drain()
    bench.clock.forward(1_000)
    rig.drain()
    assert rig.calls == {"One.Do": 1, "Two.Do": 2, "Three.Do": 1}
    (dead_letter,) = list_dead_letters(rig.queue()).items
    assert "never" in dead_letter.error


def test_a_handlers_own_document_and_the_targets_progress_do_not_mix(bench: Bench) -> None:
    rig = Several(bench)
    rig.commands = Commands()
    rig.drainer.deliveries = {TargetKind.COMMAND: rig.commands.deliver}
    seen: list[dict[str, Any]] = []

    def one(_given: Any, context: RunContext) -> None:
        context.state.write({"step": context.attempt})

    def two(_given: Any, context: RunContext) -> None:
        seen.append(context.state.read())
        if context.attempt == 1:
            raise ValueError

    rig.commands.command("One.Do")(one)
    rig.commands.command("Two.Do")(two)
    rig.commands.command("Three.Do")(lambda _given: None)
    put_n(rig.queue())
    rig.drain()
    bench.clock.forward(1_000)
    rig.drain()
    assert seen == [{"step": 1}, {"step": 1}]
