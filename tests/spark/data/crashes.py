"""A driver that is killed at one of its steps: every change of a file counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import pytest

STEPS = ("write_text", "move", "move_once", "remove")


class Killed(BaseException):
    """No handler of the product catches it."""


@contextmanager
def killed_after(monkeypatch: pytest.MonkeyPatch, module: ModuleType, steps: int) -> Iterator[None]:
    """Everything that `module` does to files works `steps` times, and then nothing does any more."""
    left = [steps]

    def limited(call: Any) -> Any:
        def step(*arguments: Any) -> Any:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return call(*arguments)

        return step

    with monkeypatch.context() as patched:
        for name in STEPS:
            patched.setattr(module, name, limited(getattr(module, name)))
        yield
