"""An alert becomes an incident under PagerDuty's own id."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

from commands.incidents import create_incident


def test_an_alert_becomes_an_incident_under_pagerdutys_id() -> None:
    context: Any = SimpleNamespace(logger=logging.getLogger("test"))
    given = {"external_id": "PGR0VU2", "severity": "critical"}
    assert create_incident(given, context)["incident_id"] == "pagerduty-PGR0VU2"
