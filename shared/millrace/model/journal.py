"""Steps of a handler that are done once: the journal that keeps what each returned, and the key of an effect.

What is exactly once is the *record*: a step that is in the journal never runs again for this message. The effect
itself may have happened just before a crash, and not be in the journal yet; `effect_key` is what to hand to whoever
performs it.
"""

from __future__ import annotations

import json
from base64 import b32encode
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Protocol, TypeVar

from millrace.model.errors import InvalidField, StoreUnavailable

T = TypeVar("T")
#: In the stored workflow state: what steps returned, and the outcome of each target. Handlers do not see them.
STEPS, TARGETS = "$once", "$targets"
_HIDDEN = (STEPS, TARGETS)
NAME_CHARACTERS = 128
#: Header of a replayed message: the message whose effects it carries on. No sender can send it: it has a colon.
EFFECTS = ":effects"
#: A write without an answer is repeated so often: repeating one that happened succeeds again.
WRITE_TRIES = 3


class Journal(Protocol):
    """Where the steps of one message are kept, under its claim."""

    def steps(self) -> Mapping[str, Any]:
        """What each step returned. Raises StaleClaim where the claim is not the newest."""

    def write_steps(self, steps: Mapping[str, Any]) -> None:
        """Replace them. Raises StaleClaim or StaleState; then nothing was written."""


def once(journal: Journal, name: str, step: Callable[[], T]) -> T:
    """What the step returned, now or in an earlier run; it is run only where the journal does not have it.

    The value is what JSON makes of it, in the first run too. Raises StaleClaim before the step where the claim is
    lost, TypeError for a value that JSON cannot spell.
    """
    check_name(name)
    steps = journal.steps()
    if name in steps:
        kept: T = steps[name]
        return kept
    value: T = json_value(name, step())
    keep_step(journal, {**steps, name: value})
    return value


def json_value(name: str, value: Any) -> Any:
    """A step's value as a later run gets it. Raises TypeError for what JSON cannot spell."""
    try:
        return json.loads(json.dumps(value))
    except TypeError as problem:
        raise TypeError(f"Step {name!r} must return what JSON can spell: {problem}") from problem


def keep_step(journal: Journal, steps: Mapping[str, Any]) -> None:
    """Write the journal; without an answer again, since repeating what happened succeeds."""
    for last in (*[False] * (WRITE_TRIES - 1), True):
        try:
            journal.write_steps(steps)
            return
        except StoreUnavailable:
            if last:
                raise


def effect_key(root: str, name: str) -> str:
    """The same for every run of a message, and of its replays: 32 letters and digits of SHA-256."""
    check_name(name)
    parts = b"".join(len(part).to_bytes(4, "big") + part for part in (root.encode(), name.encode()))
    return b32encode(sha256(parts).digest()[:20]).decode().lower()


def effect_root(message_id: str, received_at: int, headers: Mapping[str, str]) -> str:
    """Names the work of a message: this acceptance of its id, or the one that it was replayed from."""
    return headers.get(EFFECTS) or f"{message_id}@{received_at}"


def visible(state: Mapping[str, Any]) -> dict[str, Any]:
    """A stored workflow state without what is not the handler's own."""
    return {name: value for name, value in state.items() if name not in _HIDDEN}


def hidden(state: Mapping[str, Any]) -> dict[str, Any]:
    """The rest of it, which a handler's own write leaves as it is."""
    return {name: value for name, value in state.items() if name in _HIDDEN}


def check_name(name: str) -> None:
    if not name or len(name) > NAME_CHARACTERS:
        raise InvalidField("name", f"{name[:40]!r} names no step", f"1 to {NAME_CHARACTERS} characters")
