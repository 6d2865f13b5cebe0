"""Commands of webhooks without a queue: run at once, while the sender waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from millrace.admission.admit import ParseBody, typed_draft
from millrace.definitions import TargetKind, WebhookDefinition
from millrace.model.errors import MillraceError
from millrace.model.message import Draft

if TYPE_CHECKING:
    from millrace.webhooks.endpoint import RunCommand


class CommandFailed(MillraceError):
    """The command of a synchronous webhook did not succeed: a fault of ours."""

    code = "internal"

    def __init__(self, command: str, cause: str) -> None:
        self.command = command
        self.cause = cause  #: the type of what was raised; its text may hold anything
        super().__init__("The command did not succeed.")


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
        # Only here: most apps have no such command, and a handler's context costs a cold start all of asyncio.
        from millrace.webhooks.call_context import CallContext
        from millrace.worker.commands import load_commands

        return load_commands(modules).run(name, given, CallContext(correlation_id, given))

    return run
