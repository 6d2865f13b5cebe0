"""Schedules: the sweep enqueues what is due, each tick once.

A tick's message has an id made of schedule and tick, and is never replaced: whoever enqueues it again, at the same
time or after a crash, finds it there. How far a schedule came is noted behind that, so a note that is lost or late
costs a look and no second message. Ticks older than HORIZON_MS are given up, since a message's trace outlives it by a
week: within that "once" holds whatever happens.

A tick that is swept within LATE_MS is in time, and always enqueued. What becomes of later ones says `catch_up`:

    latest   the newest of them, unless a tick in time follows it; the default
    all      every one of them, oldest first
    none     they are left out
"""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import takewhile

from millrace.admission.admit import admit
from millrace.definitions import Definitions, ScheduleDefinition
from millrace.definitions.model import CatchUp
from millrace.engine.drafts import RESERVED
from millrace.engine.enqueue import enqueue
from millrace.engine.filtered import record_filtered
from millrace.engine.queue import Runtime
from millrace.model.clock import DAY, MINUTE
from millrace.model.ids import keyed_message_id
from millrace.model.message import Draft
from millrace.stores.interface import Store

log = logging.getLogger("millrace.admission")

#: Older ticks are given up.
HORIZON_MS = 6 * DAY
#: A tick that is swept later than this counts as missed.
LATE_MS = 5 * MINUTE
#: Ticks of one schedule that one sweep enqueues; the next goes on.
MAX_TICKS = 100
#: Schedules have so long of a sweep, which has queues to look after behind them; the next minute goes on.
BOX_MS = 10_000


@dataclass(frozen=True, slots=True)
class ScheduleProgress:
    """How far a schedule came. Times in ms; 0 for none yet."""

    rule: str = ""  #: the rule that this counts for; another one begins anew
    position: int = 0  #: every tick up to here is enqueued, or left out
    last: int = 0  #: the newest tick that was enqueued
    next: int = 0


def progress_of(store: Store, tenant: str, schedule: ScheduleDefinition) -> ScheduleProgress:
    """How far a schedule came, as the last sweep that met a tick noted it. One read."""
    text = store.get_sweep_position(_note_name(tenant, schedule))
    found = ScheduleProgress(**json.loads(text)) if text else ScheduleProgress()
    return found if found.rule == schedule.rule else ScheduleProgress()


def tick_text(tick: int) -> str:
    """A tick as messages and ids spell it."""
    return datetime.fromtimestamp(tick / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def tick_key(schedule: str, tick: int) -> str:
    """The key that a tick's message has its id from; no sender can name it."""
    return f"{RESERVED}schedule{RESERVED}{schedule}{RESERVED}{tick_text(tick)}"


def tick_message_id(tenant: str, schedule: ScheduleDefinition, tick: int) -> str:
    """The id of a tick's message, known before and after it is enqueued."""
    return keyed_message_id(tenant, schedule.queue, tick_key(schedule.name, tick))


def enqueue_due(runtime: Runtime, definitions: Definitions, default_tenant: str) -> int:
    """Enqueue what is due of every schedule, for at most BOX_MS: how many messages.

    A schedule that fails keeps no other waiting; each minute begins with another, so that each has its turn.
    """
    made = 0
    began = runtime.clock()
    for name in _in_turn(definitions.schedules, began // MINUTE):
        if runtime.clock() - began >= BOX_MS:
            log.warning("Schedules are left to the next minute.", extra={"action": "schedules_late", "schedule": name})
            break
        try:
            schedule = definitions.schedule(name)
            made += enqueue_ticks(runtime, definitions, schedule, schedule.tenant or default_tenant)
        except Exception as error:  # noqa: BLE001 (whatever is wrong with one schedule, the others have their turn)
            fields = {"action": "schedule_failed", "schedule": name, "error": repr(error)}
            log.warning("A schedule could not enqueue; the next minute tries again.", extra=fields)
    return made


def _in_turn(names: tuple[str, ...], turn: int) -> tuple[str, ...]:
    first = turn % len(names) if names else 0
    return names[first:] + names[:first]


def enqueue_ticks(runtime: Runtime, definitions: Definitions, schedule: ScheduleDefinition, tenant: str) -> int:
    """Enqueue what is due of one schedule: how many messages. Raises what `enqueue` raises; the next call goes on.

    One read; two writes and more for each message, and one where a tick was met.
    """
    from millrace.definitions.ticks import ticks  # only where there is a schedule

    now = runtime.clock()
    seen = progress_of(runtime.store, tenant, schedule)
    if not seen.rule:
        first = next(ticks(schedule.cron, schedule.timezone, now), 0)
        _note(runtime.store, tenant, schedule, ScheduleProgress(schedule.rule, now, 0, first))
        return 0
    after = max(seen.position, now - HORIZON_MS)
    due = list(takewhile(lambda tick: tick <= now, ticks(schedule.cron, schedule.timezone, after)))
    if not due:
        return 0
    wanted = _wanted(schedule.catch_up, due, now)
    done = seen
    try:
        for tick in wanted:
            _enqueue(runtime, definitions, schedule, tenant, tick)
            done = replace(done, position=tick, last=tick)
        done = replace(done, position=max(done.position, wanted[-1] if schedule.catch_up is CatchUp.ALL else due[-1]))
    finally:
        if done != seen:
            following = next(ticks(schedule.cron, schedule.timezone, max(now, done.position)), 0)
            _note(runtime.store, tenant, schedule, replace(done, next=following))
    return len(wanted)


def _wanted(catch_up: CatchUp, due: list[int], now: int) -> list[int]:
    in_time = [tick for tick in due if now - tick <= LATE_MS]
    match catch_up:
        case CatchUp.ALL:
            return due[:MAX_TICKS]
        case CatchUp.LATEST:
            return in_time or due[-1:]
        case CatchUp.NONE:
            return in_time


def _enqueue(runtime: Runtime, definitions: Definitions, schedule: ScheduleDefinition, tenant: str, tick: int) -> None:
    definition = definitions.queue(schedule.queue)
    queue = runtime.queue(tenant, definition.spec)
    body = json.dumps(schedule.render(tick_text(tick)), ensure_ascii=False, separators=(",", ":")).encode()
    draft = Draft(body, source=f"schedule:{schedule.name}", once=True)
    admitted = admit(definition, draft, queue.now())
    # A key that the definition reads from the body is the same for every tick: the tick's own stands in its place.
    write = record_filtered if admitted.filtered else enqueue
    write(queue, replace(admitted.draft, idempotency_key=None), system_key=tick_key(schedule.name, tick))


def _note_name(tenant: str, schedule: ScheduleDefinition) -> str:
    return f"schedule#{tenant}#{schedule.name}"


def _note(store: Store, tenant: str, schedule: ScheduleDefinition, progress: ScheduleProgress) -> None:
    store.set_sweep_position(_note_name(tenant, schedule), json.dumps(asdict(progress)))
