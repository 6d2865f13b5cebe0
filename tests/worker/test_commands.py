"""Commands: what a function is given, and how it is found."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.engine.status import status
from millrace.worker import Commands, RunContext
from tests.conftest import Bench
from tests.worker.definitions import TYPE
from tests.worker.rigs import TargetRig, put_n

COMMAND = f"queue Jobs {{ {TYPE}  map_to: command Thing.Make {{ number: n  twice: n + n }} }}"


def test_a_command_gets_what_the_mapping_makes(bench: Bench) -> None:
    rig = TargetRig(bench, COMMAND)
    seen: list[Any] = []

    @rig.commands.command("Thing.Make")
    def make(given: dict[str, int], context: RunContext) -> dict[str, int]:
        seen.append((given, context.attempt, context.input))
        return {"made": given["twice"]}

    message_id = put_n(rig.queue(), 4)
    rig.drain()
    assert seen == [({"number": 4, "twice": 8}, 1, {"number": 4, "twice": 8})]
    result = status(rig.queue(), message_id).result
    assert result is not None
    assert result.snapshot == b'{"made":8}'


def test_a_command_may_do_without_the_context(bench: Bench) -> None:
    rig = TargetRig(bench, COMMAND)
    seen: list[Any] = []
    rig.commands.command("Thing.Make")(seen.append)
    put_n(rig.queue(), 4)
    rig.drain()
    assert seen == [{"number": 4, "twice": 8}]


def test_a_command_that_nobody_registered_is_retried(bench: Bench) -> None:
    """A deploy that forgot a module is mended by the next one: nothing is dead before its attempts are used up."""
    rig = TargetRig(bench, COMMAND)
    message_id = put_n(rig.queue())
    rig.drain()
    assert status(rig.queue(), message_id).history[0].error == "There is no command 'Thing.Make'."


def test_one_name_is_registered_once() -> None:
    commands = Commands()
    commands.command("A.B")(print)
    with pytest.raises(ValueError, match="twice"):
        commands.command("A.B")(repr)
