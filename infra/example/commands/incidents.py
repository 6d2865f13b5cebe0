"""What happens to PagerDuty's alerts.

A command gets the input that its definition renders and may take the run's context as a second argument; what it
returns is the message's result. It may run twice for one message after a crash: `context.version` grows with every
claim, so hand it on to whatever must refuse the older. Log what happened to which message, as `context.logger` does by
itself, and nothing that was in it.
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
