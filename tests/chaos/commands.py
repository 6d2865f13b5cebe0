"""The chaos run's command: as good or bad as its message says."""

from __future__ import annotations

import random
import time
from typing import Any

from millrace.work import Context, Reject, command

#: A run takes up to so long, now and then much longer: whoever is killed has something in hand.
QUICK_S, SLOW_S, SLOW_ONE_IN = 0.05, 1.5, 20


@command("Chaos.Work")
def work(given: dict[str, Any], context: Context) -> dict[str, Any]:
    slow = random.randrange(SLOW_ONE_IN) == 0
    time.sleep(random.uniform(0, SLOW_S if slow else QUICK_S))
    match given["fate"]:
        case "fails":
            raise ConnectionError("It never succeeds.")
        case "rejects":
            raise Reject("It can never succeed.")
        case "stumbles" if context.attempt == 1:
            raise ConnectionError("It fails the first time.")
    return {"n": given["n"]}
