"""The load run's command: fails now and then, and keeps a journal of every run that a test can hold against the table.

The journal is a file for each process, a line a run: message, claim version, attempt, start in ms.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from millrace.work import Context, Reject, command

FAILING = float(os.environ.get("LOAD_FAILING", "0.05"))  #: runs that raise
POISON = int(os.environ.get("LOAD_POISON", "500"))  #: every so-manieth message never succeeds
_journal = os.open(
    Path(os.environ.get("LOAD_JOURNAL", "."), f"runs-{os.getpid()}.txt"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600
)


@command("Load.Work")
def work(given: dict[str, Any], context: Context) -> dict[str, Any]:
    line = f"{context.message_id} {context.version} {context.attempt} {context.started_at}\n"
    os.write(_journal, line.encode())
    if given["n"] % POISON == 0:
        raise Reject("This one can never succeed.")
    if random.random() < FAILING:
        raise ConnectionError("Injected: the target did not answer.")
    return {"n": given["n"]}
