"""An alert becomes an incident under PagerDuty's own id, once, and after an outage too."""

from __future__ import annotations

from typing import Any

from millrace import Context, Unavailable
from millrace.testing import AppUnderTest

TRIGGERED: dict[str, Any] = {
    "event": {
        "id": "01DFRVB4H1HSAVN7TY0RZZXH6X",
        "event_type": "incident.triggered",
        "data": {"id": "PGR0VU2", "title": "Head race level below 40 cm", "urgency": "high"},
    }
}


def test_an_alert_becomes_an_incident(app: AppUnderTest) -> None:
    answer = app.send_webhook("PagerDutyAlert", TRIGGERED)
    assert answer.status == 202
    app.drain()
    assert app.result(answer.message_id) == {
        "incident_id": "pagerduty-PGR0VU2",
        "severity": "critical",
        "state": "open",
    }


def test_the_same_event_again_is_the_same_message(app: AppUnderTest) -> None:
    first, again = app.send_webhook("PagerDutyAlert", TRIGGERED), app.send_webhook("PagerDutyAlert", TRIGGERED)
    assert again.message_id == first.message_id
    assert app.depth("WebhookIngress") == 1


def test_what_becomes_of_an_incident_later_is_left_out(app: AppUnderTest) -> None:
    resolved = {"event": {**TRIGGERED["event"], "event_type": "incident.resolved"}}
    app.send_webhook("PagerDutyAlert", resolved)
    assert app.depth("WebhookIngress") == 0


def test_an_alert_survives_an_outage(app: AppUnderTest) -> None:
    from commands import incidents

    create, runs = incidents.create_incident, []

    def down_at_first(given: dict[str, Any], context: Context) -> dict[str, Any]:
        runs.append(context.attempt)
        if len(runs) < 3:
            raise Unavailable(reason="the incident service is down")
        return create(given, context)

    app.replace_command("Incident.CreateIncident", down_at_first)
    answer = app.send_webhook("PagerDutyAlert", TRIGGERED)
    app.drain_to_the_end()
    assert runs == [1, 2, 3]
    assert app.result(answer.message_id)["state"] == "open"
    assert app.dead_letters("WebhookDLQ") == []
