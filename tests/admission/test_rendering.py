"""From a stored message to a handler's input: one target's mapping, or the typed message."""

from __future__ import annotations

import pytest

from millrace.admission.rendering import handler_input, read_message, render
from millrace.handlers.controls import Reject
from millrace.model.message import Body, Message, Place
from tests.worker.definitions import TYPE, compiled

DEFINITIONS = compiled(
    f"""
    queue Plain {{ {TYPE}  fed_by: api  drained_by: api }}
    queue Mapped {{ {TYPE}  map_to: command Thing.Do {{ twice: n + n  name: name }} }}
    queue Several {{ {TYPE}  map_to: command Thing.Do {{ n: n }}  map_to: command Thing.Undo {{ n: n }} }}
    """
)
BODY = b'{"n": 2, "name": "x"}'


def message(queue: str) -> Message:
    return Message("m", "acme", queue, "n", Place("p", "s"), Body(), "application/json", 0, 0, 0)


@pytest.mark.parametrize(
    ("queue", "given"),
    [
        ("Plain", {"n": 2, "name": "x"}),
        ("Mapped", {"twice": 4, "name": "x"}),
        ("Several", {"n": 2, "name": "x"}),
    ],
)
def test_a_handler_is_given_what_its_target_would_be(queue: str, given: dict[str, object]) -> None:
    assert handler_input(DEFINITIONS.queue(queue), message(queue), BODY) == given


def test_what_cannot_be_read_or_mapped_is_rejected() -> None:
    definition = DEFINITIONS.queue("Mapped")
    with pytest.raises(Reject, match="does not fit its type"):
        read_message(definition, message("Mapped"), b"[1]")
    with pytest.raises(Reject, match="has no value"):
        render(definition.targets[0], {"n": 2})
