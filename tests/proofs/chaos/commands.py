"""The chaos run's command: as good or bad as its message says."""

from __future__ import annotations

import random
import time
from typing import Any

from millrace import Context, Reject, command

#: A run takes up to so long. Every run of one message in eight takes much longer: whoever is killed has something in
#: hand, and whoever was stopped past its lease comes back to ack while another one runs the same message.
QUICK_S, SLOW_S, SLOW_ONE_IN = 0.05, (2.0, 4.5), 8


@command("Chaos.Work")
def work(given: dict[str, Any], context: Context) -> dict[str, Any]:
    slow = given["n"] % SLOW_ONE_IN == 3
    time.sleep(random.uniform(*SLOW_S) if slow else random.uniform(0, QUICK_S))
    match given["behaviour"]:
        case "fails":
            raise ConnectionError("It never succeeds.")
        case "rejects":
            raise Reject("It can never succeed.")
        case "stumbles" if context.attempt == 1:
            raise ConnectionError("It fails the first time.")
    return {"n": given["n"]}
