"""Commands: Python functions of the bundle that a definition names as `command Entity.Name`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pkgutil import walk_packages
from typing import Any, TypeVar

from millrace.handlers.batches import BatchSettings, Outcome, call_batch
from millrace.handlers.calling import call
from millrace.handlers.context import Context
from millrace.model.errors import NotFound
from millrace.worker.context import RunContext
from millrace.worker.targets.request import TargetRequest

Function = TypeVar("Function", bound=Callable[..., Any])


class Commands:
    """Functions by the name that definitions give them."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}
        self._batches: dict[str, BatchSettings] = {}

    def command(self, name: str, *, batch: int | None = None, wait_ms: int = 0) -> Callable[[Function], Function]:
        """Register a handler, sync or async: it takes the rendered input, and the context as a second parameter.

        With `batch` it takes a `Batch` of up to so many messages, the first of which waits up to `wait_ms` for others.
        """
        settings = BatchSettings.of(batch, wait_ms)

        def register(function: Function) -> Function:
            if name in self._functions and self._functions[name] is not function:
                raise ValueError(f"Command {name!r} is registered twice.")
            self._functions[name] = function
            if settings is not None:
                self._batches[name] = settings
            return function

        return register

    def copy(self) -> Commands:
        """A registry of its own with the same functions, for a test that puts another in the place of one."""
        copied = Commands()
        copied._functions.update(self._functions)
        copied._batches.update(self._batches)
        return copied

    def replace(self, name: str, function: Callable[..., Any]) -> None:
        """Put another function under a name. Raises NotFound for one that nobody registered."""
        if name not in self._functions:
            raise NotFound("command", name)
        self._functions[name] = function

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._functions))

    def deliver(self, context: RunContext, request: TargetRequest) -> Any:
        """The `command` target: call the named function with the rendered input."""
        context.input = request.given
        return self.run(request.destination, request.given, context)

    __call__ = deliver

    def run(self, name: str, given: Any, context: Context) -> Any:
        """Call a command. Raises NotFound for a name that no module registered."""
        if name in self._batches:
            return self.run_batch(name, [(given, context)])[0].give()
        return call(self.find(name), given, context)

    def batch_of(self, name: str) -> BatchSettings | None:
        """How many messages a command takes at once; None for one that takes them singly."""
        return self._batches.get(name)

    def run_batch(self, name: str, given: Sequence[tuple[Any, Context]]) -> list[Outcome]:
        """Call a batch command: what became of each message. Raises NotFound for a name that no module registered."""
        return call_batch(self.find(name), given)

    def find(self, name: str) -> Callable[..., Any]:
        """The function of a name. Raises NotFound for one that no module registered."""
        function = self._functions.get(name)
        if function is None:
            raise NotFound("command", name)
        return function


#: The app's commands: modules named in COMMANDS register here when they are imported.
BUNDLE = Commands()
command = BUNDLE.command


def load_commands(modules: Iterable[str]) -> Commands:
    """Import the modules that register commands, of a package all; returns the registry with every command."""
    for name in modules:
        module = import_module(name)
        for found in walk_packages(getattr(module, "__path__", ()), f"{name}.", onerror=_raise):
            import_module(found.name)
    return BUNDLE


def _raise(_name: str) -> None:
    """A package inside that cannot be imported is as wrong as a module."""
    raise  # the error that walk_packages is handling
