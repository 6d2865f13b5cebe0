"""Functions that a sandbox is tried with."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any


def answers(event: dict[str, Any], context: Any) -> dict[str, Any]:
    left = context.get_remaining_time_in_millis()
    return {"event": event, "pid": os.getpid(), "in_time": left > 0, "name": context.function_name}


def fails(_event: dict[str, Any], _context: Any) -> None:
    raise ValueError("the gate is stuck")


def hangs(_event: dict[str, Any], _context: Any) -> None:
    time.sleep(600)


def notes(event: dict[str, Any], _context: Any) -> None:
    Path(event["path"]).write_text("called")
