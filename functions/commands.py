"""The commands of the shipped example: what the queues of `infra/queues` map their messages to.

Put your own here, or in modules of your own that COMMANDS names. A command gets the input that its definition renders
and may take the run's context as a second argument; what it returns is the message's result. It may run twice for
one message after a crash: `context.version` grows with every claim, so hand it on to whatever must refuse the older.
Log what happened to which message, as `context.logger` does by itself, and nothing that was in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace import Context, command


@command("Incident.CreateIncident")
def create_incident(given: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """An incident under the id that PagerDuty gave it, so that a second run makes the same one."""
    incident = {"incident_id": f"pagerduty-{given['external_id']}", "severity": given["severity"], "state": "open"}
    context.logger.info("An incident was created.", extra={"action": "incident_created"})
    return incident


@command("Deployment.RecordEvent")
def record_deployment(given: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """What a repository's event says about its deployment."""
    recorded = {"repository": given["repository"], "event": given["event"], "failed": given["failed"]}
    context.logger.info("A deployment event was recorded.", extra={"action": "deployment_recorded"})
    return recorded


@command("Billing.RecordPayment")
def record_payment(given: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """A payment under Stripe's event id."""
    recorded = {"event_id": given["event_id"], "type": given["type"]}
    context.logger.info("A payment was recorded.", extra={"action": "payment_recorded"})
    return recorded
