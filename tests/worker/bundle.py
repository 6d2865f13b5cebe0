"""Commands as an application would ship them, for the tests that run the real functions."""

from __future__ import annotations

from typing import Any

from millrace import Context, command


@command("Incident.CreateIncident")
def create_incident(given: dict[str, Any], context: Context) -> dict[str, Any]:
    return {"incident": given["external_id"], "severity": given["severity"], "fencing": context.version}
