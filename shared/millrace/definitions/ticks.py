"""When a schedule is due: the ticks of a cron rule in a time zone, by cronsim.

cronsim follows Debian's cron, also where clocks are changed: a job at a fixed hour that the change skips runs right
after it, one in the hour that comes twice runs once, and a job of every hour or minute goes by the time that passes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

FIELDS = 5
#: Where the iteration begins before what is asked for: past any hour that comes twice. Begun inside one, it would
#: give other ticks than one that came from before, and a tick must be the same whoever asks.
LEAD_MS = 3 * 3_600_000


def ticks(cron: str, timezone: str, after: int) -> Iterator[int]:
    """Every tick later than `after`, in order, in ms. It ends only for a rule that matches nothing for 50 years."""
    start = datetime.fromtimestamp((after - LEAD_MS) / 1000, ZoneInfo(timezone))
    for found in CronSim(cron, start):
        tick = int(found.timestamp() * 1000)
        if tick > after:
            yield tick


def cron_problem(cron: str) -> str:
    """Why a rule is none; empty for one that is."""
    fields = len(cron.split())
    if fields != FIELDS:
        return f"a rule has {FIELDS} fields (minute, hour, day, month, weekday), not {fields}"
    try:
        next(CronSim(cron, datetime(2026, 1, 1)))  # noqa: DTZ001 (any start will do)
    except CronSimError as error:
        return f"the {str(error).removeprefix('Bad ')} is wrong"
    except StopIteration:
        return "it never comes"
    return ""


def timezone_problem(name: str) -> str:
    """Why a time zone is none; empty for one that is."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return f"there is no time zone {name!r}"
    return ""
