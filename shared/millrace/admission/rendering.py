"""From a stored message to what its handler or target is given: the same for workers and consumers.

What has no value now never will have one, so both raise `Reject`: no retry can help.
"""

from __future__ import annotations

from typing import Any

from millrace.admission.admit import typed_message
from millrace.definitions import QueueDefinition, Target
from millrace.handlers.controls import Reject
from millrace.model.errors import ExpressionFailed, InvalidMessage, TooManyValues
from millrace.model.message import Message


def read_message(definition: QueueDefinition, message: Message, body: bytes) -> dict[str, Any]:
    """The typed message. Raises Reject for one that does not fit its type."""
    try:
        return typed_message(definition.message_type, message, body)
    except (InvalidMessage, TooManyValues) as problem:
        raise Reject(f"The message does not fit its type: {problem}") from problem


def render(target: Target, typed: dict[str, Any]) -> dict[str, Any]:
    """What a target is given. Raises Reject where its mapping has no value."""
    try:
        return target.render(typed)
    except ExpressionFailed as problem:
        raise Reject(f"The mapping has no value for this message: {problem}") from problem


def handler_input(definition: QueueDefinition, message: Message, body: bytes) -> dict[str, Any]:
    """What a handler over the pull API is given: as the queue's one target, or the typed message. Raises Reject."""
    typed = read_message(definition, message, body)
    return render(definition.targets[0], typed) if len(definition.targets) == 1 else typed
