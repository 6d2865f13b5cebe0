"""The example application that ships, its compiled form and the schema of that form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from millrace.definitions import load
from millrace.definitions.language.compiler import compile_files
from tests.definitions.writing import compile_text

SOURCES = sorted(Path("infra/example/queues").glob("*.millrace"))
COMPILED = Path("infra/definitions.json")
SCHEMA = json.loads(Path("infra/definitions.schema.json").read_text())


def test_the_compiled_file_is_current_and_without_warnings() -> None:
    compilation = compile_files([(path.as_posix(), path.read_bytes()) for path in SOURCES])
    assert compilation.findings == []
    assert compilation.text == COMPILED.read_text()


def test_the_example_of_the_design_compiles_as_it_stands() -> None:
    text = """app IncidentManagement {
  queue WebhookIngress {
    message_type { payload: json  headers: map<string, string>  source_ip: string  received_at: time }
    ordering: fifo                                  // unordered | fifo | per_key(payload.incident.id)
    retention { max_age_seconds: 86400  max_depth: 10000 }
    delivery { max_attempts: 5  initial_backoff_ms: 1000  max_backoff_ms: 60000  dead_letter_queue: WebhookDLQ }
    map_to: command Incident.CreateIncident {
      title: payload.incident.title
      severity: payload.incident.urgency == "high" ? "critical" : "high"
    }
  }
  queue WebhookDLQ {
    message_type { original_message: json  failed_at: time  error: string  attempts: int }
    retention { max_age_seconds: 604800 }
  }
  webhook PagerDutyAlert {
    queue: WebhookIngress
    verify_hmac { header: "X-PagerDuty-Signature"  secret_env: "PAGERDUTY_WEBHOOK_SECRET" }
  }
}"""
    compilation = compile_text(text)
    assert compilation.findings == []
    jsonschema.validate(compilation.definitions, SCHEMA)


@pytest.mark.parametrize(("urgency", "severity"), [("high", "critical"), ("low", "high"), (None, "high"), (5, "high")])
def test_pagerduty_becomes_an_incident(urgency: Any, severity: str) -> None:
    queue = load(COMPILED).queue("WebhookIngress")
    message = {
        "payload": {"event": {"data": {"id": "PT4KHLK", "title": "The server is on fire", "urgency": urgency}}},
        "headers": {"content-type": "application/json"},
        "source_ip": "192.0.2.7",
        "received_at": "2026-11-16T09:30:00Z",
    }
    assert queue.message_type is not None
    assert queue.message_type.validate(message) == []
    (target,) = queue.targets
    assert (target.kind, target.entity, target.command) == ("command", "Incident", "CreateIncident")
    assert target.render(message) == {
        "title": "The server is on fire",
        "severity": severity,
        "source": "pagerduty",
        "external_id": "PT4KHLK",
    }


def test_the_compiled_file_and_every_form_follow_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(json.loads(COMPILED.read_text()), SCHEMA)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 2),
        (("queues", "Payments", "spec", "shards"), 0),
        (("queues", "Payments", "spec", "extra"), 1),
        (("queues", "Payments", "targets", 0, "input", "event_id"), {"text": "x", "form": {"run": []}}),
        (("queues", "Payments", "message_type"), "json"),
        (("webhooks", "Stripe", "secrets", 0, "value"), "s3cret"),
    ],
)
def test_the_schema_refuses_what_the_compiler_does_not_write(path: tuple[Any, ...], value: Any) -> None:
    compiled = json.loads(COMPILED.read_text())
    inner = compiled
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(compiled, SCHEMA)
