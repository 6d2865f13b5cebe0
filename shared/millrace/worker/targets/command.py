"""The `command` target: a Python function of the bundle."""

from __future__ import annotations

from typing import Any

from millrace.worker.commands import Commands
from millrace.worker.context import Context
from millrace.worker.targets.request import TargetRequest


class CommandDelivery:
    """Calls the registered function with the rendered input."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def __call__(self, context: Context, request: TargetRequest) -> Any:
        context.input = request.given
        return self._commands.run(request.destination, request.given, context)
