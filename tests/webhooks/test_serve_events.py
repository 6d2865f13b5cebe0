"""Events as API Gateway sends them, in `events/`, through the real handler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from functions.ingress import handler as function
from millrace.definitions import Definitions, load
from millrace.engine.status import status
from millrace.signatures import SecretSource
from millrace.stores.dynamodb.client import TableNames
from millrace.webhooks import Ingress
from tests.conftest import Bench
from tests.webhooks.gate import Answer, Gate, endpoints

ROOT = Path(__file__).resolve().parents[2]
EVENTS = sorted((ROOT / "events").glob("ingress-*.json"))
SECRETS = {
    "GITHUB_WEBHOOK_SECRET": "events-secret",
    "PAGERDUTY_WEBHOOK_SECRET": "events-secret",
    "STRIPE_WEBHOOK_SECRET": "events-secret",
    "HOOK_SECRET": "events-secret",
    "META_TOKEN": "events-token",
}
EXPECTED = {
    "ingress-bad-signature-v2": 401,
    "ingress-binary-v2": 202,
    "ingress-duplicate-headers-cookies-v2": 202,
    "ingress-github-filtered-v2": 202,
    "ingress-github-rest-v1": 202,
    "ingress-github-v2": 202,
    "ingress-meta-challenge-get-v2": 200,
    "ingress-pagerduty-base64-v2": 202,
    "ingress-pagerduty-tenant-v2": 202,
    "ingress-slack-challenge-v2": 200,
    "ingress-stripe-v2": 202,
    "ingress-twilio-form-v2": 204,
}


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "events" / f"{name}.json").read_text("utf-8"))
    return found


@pytest.fixture
def gate(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """The shipped application, and the webhooks of the tests for what it does not use."""
    compiled = json.loads((ROOT / "infra" / "definitions.json").read_text("utf-8"))
    merged = {part: {**endpoints()[part], **compiled[part]} for part in ("queues", "webhooks", "schedules")}
    # A tenant of the events, with the webhook's own secret.
    merged["tenants"] = {"mill": {"PagerDutyAlert": compiled["webhooks"]["PagerDutyAlert"]["secrets"]}}
    secrets = SecretSource(bench.clock, environ=SECRETS)
    bench.clock.now = 1_772_442_847_250
    return Gate(Ingress(Definitions(merged), bench.runtime, secrets, default_tenant=bench.tenant), monkeypatch)


def test_every_event_is_expected_to_do_something() -> None:
    assert [path.stem for path in EVENTS] == sorted(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_event_gets_its_answer(gate: Gate, name: str) -> None:
    answer = gate.call(read(name))
    assert answer.status == EXPECTED[name], answer.text
    assert answer.headers["X-Correlation-Id"]


def test_rest_and_http_api_give_the_same_message(gate: Gate) -> None:
    first, second = gate.call(read("ingress-github-v2")), gate.call(read("ingress-github-rest-v1"))
    assert first.json["message_id"] == second.json["message_id"]
    assert second.json["duplicate"] is True


def test_cookies_and_authorisation_are_not_stored_and_joined_headers_are_kept(gate: Gate) -> None:
    answer = gate.call(read("ingress-duplicate-headers-cookies-v2"))
    message = status(gate.queue("Payments"), answer.json["message_id"]).message
    assert message.headers == {
        ":source-ip": "203.0.113.7",
        "content-type": "application/json; charset=utf-8",
        "user-agent": "Stripe/1.0,proxy/2",
        "x-correlation-id": "edge-7f3a",
    }


def test_binary_body_is_kept_whole(gate: Gate) -> None:
    answer = gate.call(read("ingress-binary-v2"))
    queue = gate.queue("Blobs")
    assert queue.runtime.bodies.read(status(queue, answer.json["message_id"]).message) == bytes(range(256))


def test_function_starts_from_its_environment_alone(
    engine_url: str, tables: TableNames, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As deployed: settings, definitions, secrets and endpoint from variables, the minimal client on DynamoDB Local."""
    for name, value in {
        **SECRETS,
        "QUEUE_TABLE": tables.queue,
        "DEAD_LETTER_TABLE": tables.dead_letters,
        "BODY_BUCKET": "bodies",
        "DEFINITIONS": str(ROOT / "infra" / "definitions.json"),
        "DEFAULT_TENANT": tenant,
        "AWS_ENDPOINT_URL_DYNAMODB": engine_url,
    }.items():
        monkeypatch.setenv(name, value)
    function.ingress.cache_clear()
    try:
        event = read("ingress-github-v2")
        answers = [Answer(function.handler(event, None)) for _ in range(2)]
        runtime = function.ingress().runtime
        runtime.store._calls.client.close()  # type: ignore[attr-defined]
    finally:
        function.ingress.cache_clear()
    assert [answer.status for answer in answers] == [202, 202]
    assert answers[0].json["message_id"] == answers[1].json["message_id"]
    definition = load(ROOT / "infra" / "definitions.json").queue("RepositoryEvents")
    assert runtime.queue(tenant, definition.spec).spec.name == "RepositoryEvents"
