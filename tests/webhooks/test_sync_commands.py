"""Webhooks without a queue: their command runs while the sender waits."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.webhooks.sync_commands import CommandFailed
from tests.webhooks.gate import Gate, open_gate


def _at_once(gate: Gate, run: Any) -> Gate:
    gate.ingress = open_gate(gate.ingress.runtime, gate.ingress.default_tenant, run_command=run)
    return gate


def test_webhook_without_a_queue_answers_with_what_its_command_gave(gate: Gate) -> None:
    calls: list[Any] = []

    def run(name: str, given: Any, correlation_id: str) -> Any:
        calls.append((name, given, correlation_id))
        return {"number": 7}

    answer = _at_once(gate, run).send("AtOnce", b'{"title": "High water"}')
    assert (answer.status, answer.json) == (200, {"result": {"number": 7}})
    assert calls == [("Incident.CreateIncident", {"title": "High water"}, answer.headers["X-Correlation-Id"])]


def test_command_that_raises_is_a_500_that_tells_nothing(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    def run(*_: Any) -> Any:
        raise ValueError("the database password is hunter2")

    answer = _at_once(gate, run).send("AtOnce", b'{"title": "High water"}')
    assert (answer.status, answer.json["code"]) == (500, "internal")
    assert "hunter2" not in answer.text
    assert "hunter2" not in caplog.text
    assert [vars(record)["error_type"] for record in caplog.records] == ["ValueError"]


def test_command_that_nobody_registered_is_a_500(gate: Gate) -> None:
    assert gate.send("AtOnce", b'{"title": "x"}').status == 500
    assert CommandFailed("A.B", "x").code == "internal"


def test_mapping_without_a_value_is_422(gate: Gate) -> None:
    answer = _at_once(gate, lambda *_: None).send("AtOnce", b'{"name": "x"}')
    assert (answer.status, answer.json["code"]) == (422, "expression_failed")
