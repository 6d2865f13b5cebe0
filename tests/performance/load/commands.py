"""The load run's command: fails now and then."""

from __future__ import annotations

import os
import random
from typing import Any

from millrace.worker import Reject, command

FAILING = float(os.environ.get("LOAD_FAILING", "0.05"))  #: runs that raise
POISON = int(os.environ.get("LOAD_POISON", "500"))  #: every so-manieth message never succeeds


@command("Load.Work")
def work(given: dict[str, Any]) -> dict[str, Any]:
    if given["n"] % POISON == 0:
        raise Reject("This one can never succeed.")
    if random.random() < FAILING:
        raise ConnectionError("Injected: the target did not answer.")
    return {"n": given["n"]}
