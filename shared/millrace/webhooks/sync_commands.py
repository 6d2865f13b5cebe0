"""Commands of webhooks without a queue: run at once, while the sender waits."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from threading import Event
from typing import TYPE_CHECKING, Any

from millrace.admission.admit import ParseBody, typed_draft
from millrace.definitions import TargetKind, WebhookDefinition
from millrace.handlers.context import Context, RunLogger
from millrace.model.clock import Clock, system_clock, system_entropy
from millrace.model.errors import MillraceError
from millrace.model.ids import random_token
from millrace.model.message import Draft

if TYPE_CHECKING:
    from millrace.webhooks.endpoint import RunCommand

log = logging.getLogger("millrace.webhooks")
#: API Gateway ends a call after 30 s.
CALL_MS = 29_000


class CommandFailed(MillraceError):
    """The command of a synchronous webhook did not succeed: a fault of ours."""

    code = "internal"

    def __init__(self, command: str, cause: str) -> None:
        self.command = command
        self.cause = cause  #: the type of what was raised; its text may hold anything
        super().__init__("The command did not succeed.")


class UnkeptState:
    """The workflow state of a call that has no message: it lasts as long as the call."""

    def __init__(self) -> None:
        self._state: dict[str, Any] = {}
        self._steps: dict[str, Any] = {}

    def steps(self) -> dict[str, Any]:
        return dict(self._steps)

    def write_steps(self, steps: Mapping[str, Any]) -> None:
        self._steps = dict(steps)

    def read(self) -> dict[str, Any]:
        return dict(self._state)

    def write(self, state: Mapping[str, Any]) -> None:
        self._state = dict(state)


class CallContext(Context):
    """What a command gets besides its input where there is no claim: the same names, as far as they mean anything."""

    attempt = 1
    version = 0  #: nothing is fenced: whoever calls twice runs it twice
    message_id = ""
    staged = None  #: there is no ack that writes could be made with
    body = b""  #: there is no message: what there is, is the input

    def __init__(self, correlation_id: str, given: Any, clock: Clock = system_clock) -> None:
        self._correlation_id = correlation_id
        self._clock = clock
        self._state = UnkeptState()
        #: Nothing names the work of a call: whoever calls twice does it twice.
        self._effect_root = random_token(system_entropy)
        self.input = given
        self.cancelled = Event()
        self.deadline = clock() + CALL_MS

    @property
    def correlation_id(self) -> str:
        return self._correlation_id

    @property
    def effect_root(self) -> str:
        return self._effect_root

    @property
    def state(self) -> UnkeptState:
        return self._state

    @property
    def fields(self) -> dict[str, Any]:
        return {"correlation_id": self._correlation_id}

    @property
    def logger(self) -> RunLogger:
        return RunLogger(log, self.fields)

    def remaining_ms(self) -> int:
        return max(0, self.deadline - self._clock())

    def extend(self, seconds: float) -> None:
        """Does nothing: the sender waits no longer than API Gateway lets it."""


def run_at_once(webhook: WebhookDefinition, draft: Draft, now: int, document: ParseBody, run: RunCommand | None) -> Any:
    """Run the command of a webhook without a queue. Raises InvalidMessage, ExpressionFailed or CommandFailed."""
    target, message_type = webhook.target, webhook.message_type
    if target is None or target.kind is not TargetKind.COMMAND or message_type is None or run is None:
        raise CommandFailed(target.name if target else "", "only a registered command can run at once")
    given = target.render(typed_draft(message_type, draft, now, document))
    try:
        return run(target.name, given, draft.correlation_id or "")
    except Exception as exc:  # noqa: BLE001 (whatever it is, it becomes the error below)
        # Whatever a command raises is a fault of ours: the sender may try again. Its text stays out of the log.
        raise CommandFailed(target.name, type(exc).__name__) from None


def commands_of(listed: str) -> RunCommand:
    """Runs the commands that these modules (comma-separated) register; imported with the first call that needs one."""
    modules = [name.strip() for name in listed.split(",") if name.strip()]

    def run(name: str, given: Mapping[str, Any], correlation_id: str) -> Any:
        from millrace.worker.commands import load_commands

        return load_commands(modules).run(name, given, CallContext(correlation_id, given))

    return run
