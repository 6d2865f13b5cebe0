"""What happens to Stripe's payments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace import Context, command


@command("Billing.RecordPayment")
def record_payment(given: Mapping[str, Any], context: Context) -> dict[str, Any]:
    """A payment under Stripe's event id."""
    recorded = {"event_id": given["event_id"], "type": given["type"]}
    context.logger.info("A payment was recorded.", extra={"action": "payment_recorded"})
    return recorded
