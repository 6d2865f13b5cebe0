"""Time and randomness, passed in so that the core never reads either by itself."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable

#: Milliseconds since 1970, UTC.
Clock = Callable[[], int]
#: So many unpredictable bytes: for nonces and claim tokens.
Entropy = Callable[[int], bytes]
#: A float in [0, 1): for jitter, where nobody gains by guessing it.
Chance = Callable[[], float]

MINUTE = 60_000
DAY = 86_400_000


def system_clock() -> int:
    """The machine's own time, in milliseconds."""
    return time.time_ns() // 1_000_000


system_entropy: Entropy = os.urandom
system_chance: Chance = random.random
