"""Woken by the table's stream, by the schedule, or for one queue: drains what is due and goes away."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

from aws_lambda_powertools.logging import Logger

from millrace.aws.functions import LambdaContext
from millrace.model.queue_state import QueueState
from millrace.worker.deployment import drainer_from
from millrace.worker.dictionaries import review_dictionaries
from millrace.worker.drainer import QueueDrainer
from millrace.worker.metrics import emit_gauges
from millrace.worker.samples import keep_samples
from millrace.worker.time_left import TimeLeft
from millrace.worker.wakeup import handle_wakeup, read_event

#: The parent of the library's own logger, so that its lines are structured too.
logger = Logger(service="millrace")


@cache
def drainer() -> QueueDrainer:
    """What every invocation of this process shares; built with the first one."""
    return drainer_from(os.environ)


def after_sweep(drainer: QueueDrainer, states: Sequence[QueueState], time_left: TimeLeft) -> None:
    """How the queues stand, as metrics and now and then as a sample of their history; then their dictionaries."""
    keep_samples(drainer, states, time_left, emit_gauges(drainer, states, time_left))
    review_dictionaries(drainer, states, time_left)


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Handle one wake-up. Threads stuck in a handler cannot be ended: then the process ends, for a fresh one."""
    wakeup = read_event(event)
    time_left = TimeLeft(context.get_remaining_time_in_millis)
    results = handle_wakeup(drainer(), wakeup, time_left, after_sweep=after_sweep)
    drainer().runtime.credits.give_back()
    if any(result.reason == "stuck" for result in results):
        logger.error("Every thread is stuck in a handler; this process ends.", extra={"action": "process_stuck"})
        raise SystemExit(1)
    return {"drained": sum(result.counts["started"] for result in results)}
