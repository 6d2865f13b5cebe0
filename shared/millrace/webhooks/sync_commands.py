"""Commands of webhooks without a queue: run at once, while the sender waits."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from millrace.webhooks.endpoint import RunCommand
    from millrace.worker import Context

log = logging.getLogger("millrace.webhooks")


@dataclass(frozen=True, slots=True)
class CallContext:
    """What a command gets besides its input where there is no claim: the same names, as far as they mean anything."""

    correlation_id: str
    input: Any
    attempt: int = 1
    version: int = 0  #: nothing is fenced: whoever calls twice runs it twice
    message_id: str = ""

    @property
    def logger(self) -> logging.LoggerAdapter[logging.Logger]:
        return logging.LoggerAdapter(log, {"correlation_id": self.correlation_id})


def commands_of(listed: str) -> RunCommand:
    """Runs the commands that these modules (comma-separated) register; imported with the first call that needs one."""
    modules = [name.strip() for name in listed.split(",") if name.strip()]

    def run(name: str, given: Mapping[str, Any], correlation_id: str) -> Any:
        from millrace.worker.commands import load_commands

        return load_commands(modules).run(name, given, cast("Context", CallContext(correlation_id, given)))

    return run
