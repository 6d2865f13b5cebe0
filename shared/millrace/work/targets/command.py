"""The `command` target: a Python function of the bundle."""

from __future__ import annotations

from typing import Any

from millrace.work.commands import Commands
from millrace.work.context import Context
from millrace.work.targets.delivery import Parcel


class CommandDelivery:
    """Calls the registered function with the rendered input."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands

    def __call__(self, context: Context, parcel: Parcel) -> Any:
        context.input = parcel.given
        return self._commands.run(parcel.destination, parcel.given, context)
