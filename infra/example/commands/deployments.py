"""What happens to GitHub's events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace import Context, command


@command("Deployment.RecordEvent")
def record_deployment(given: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """What a repository's event says about its deployment."""
    recorded = {"repository": given["repository"], "event": given["event"], "failed": given["failed"]}
    context.logger.info("A deployment event was recorded.", extra={"action": "deployment_recorded"})
    return recorded
