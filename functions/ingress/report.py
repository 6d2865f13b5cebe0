"""What the ingress tells its operators: one log line and one set of metrics for each call.

A sender's data is in neither: names are those of our definitions, reasons are from our own lists.
"""

from __future__ import annotations

import os

from functions.ingress.lines import count_line, json_logger
from millrace.history.log import to_standard_output
from millrace.model.clock import system_clock
from millrace.webhooks.serve import FAILED, REFUSED, Served

SERVICE = "ingress"
#: template.yaml names a namespace for each stack, so that two in one account stay apart.
NAMESPACE = os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or "Millrace"
logger = json_logger(SERVICE)

#: outcome → metric.
METRICS = {
    "accepted": "Accepted",
    "duplicate": "Duplicate",
    "filtered": "Filtered",
    "answered": "ChallengeAnswered",
    "ran": "CommandRan",
    "shed": "Shed",
    REFUSED: "Refused",
    FAILED: "Failed",
}
#: Stands for the webhook where none of ours was called: a stranger must not be able to make up dimensions.
NO_WEBHOOK = "none"


def report(served: Served) -> None:
    """Log and count one call."""
    _log(served)
    _count(METRICS[served.outcome], served, {"reason": served.reason} if served.reason else {})
    if served.secret:
        # A rotation is complete when the old secret's count stays at zero.
        _count("SecretMatched", served, {"secret": served.secret})


def _log(served: Served) -> None:
    said = {
        "action": f"webhook_{served.outcome}",
        "webhook": served.webhook,
        "queue": served.queue,
        "message_id": served.message_id,
        "correlation_id": served.correlation_id,
        "status": served.response.status,
        "reason": served.reason,
    }
    said["error_type"] = getattr(served.error, "cause", "")  # what a command raised
    said["problem"] = getattr(served.error, "problem", "")  # what an operator must set, where a secret is missing
    extra = {name: value for name, value in said.items() if value}
    if served.error is not None:
        logger.error("A call failed.", exc_info=served.error, extra=extra)
    else:
        logger.info("A call was answered.", extra=extra)


def _count(name: str, served: Served, dimensions: dict[str, str]) -> None:
    every = {"webhook": served.webhook or NO_WEBHOOK, **dimensions, "service": SERVICE}
    to_standard_output(count_line(NAMESPACE, name, every, system_clock()) + "\n")
