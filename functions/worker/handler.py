"""Woken by the table's stream, by the schedule, or for one queue: drains what is due and goes away."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, Protocol

from aws_lambda_powertools.logging import Logger

from millrace.worker.deployment import drainer_from
from millrace.worker.drainer import QueueDrainer
from millrace.worker.events import read_event
from millrace.worker.gauges import emit_gauges
from millrace.worker.time_left import TimeLeft
from millrace.worker.wakeup import handle_wakeup

#: The parent of the library's own logger, so that its lines are structured too.
logger = Logger(service="millrace")


class LambdaContext(Protocol):
    """What of Lambda's context is used here."""

    def get_remaining_time_in_millis(self) -> int: ...


@cache
def drainer() -> QueueDrainer:
    """What every invocation of this process shares; built with the first one."""
    return drainer_from(os.environ)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Attend to one wake-up. Threads that hang in a handler cannot be ended: then the process goes, for a fresh one."""
    wake = read_event(event)
    if wake.sweep:
        emit_gauges(drainer())
    drained = handle_wakeup(drainer(), wake, TimeLeft(context.get_remaining_time_in_millis))
    drainer().runtime.credits.give_back()
    if any(found.reason == "stuck" for found in drained):
        logger.error("Every thread hangs in a handler; this process ends.", extra={"action": "process_stuck"})
        raise SystemExit(1)
    return {"drained": sum(found.counts["started"] for found in drained)}
