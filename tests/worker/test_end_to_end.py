"""A webhook posted to the ingress function, found by the table's real stream, done by the worker function."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from threading import Condition
from typing import Any

import pytest

from infra.local.dynamodb import REGION
from infra.local.streams import StreamPoller
from millrace.definitions import load
from millrace.engine.inspect import list_entries
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import MessageStatus, status
from millrace.model.clock import system_clock
from millrace.signatures import Secret, scheme_from
from millrace.signatures.signing import sign
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from tests.engines import own_engine

ROOT = Path(__file__).parents[2]
DEFINITIONS = ROOT / "infra" / "definitions.json"
NAMES = TableNames("millrace-e2e-queue", "millrace-e2e-dead-letters")
SECRET = "a-secret-for-tests"
WAIT_S = 60


def _triggered(incident: str) -> dict[str, Any]:
    data = {"id": incident, "title": "Disk full", "urgency": "high"}
    return {"event": {"event_type": "incident.triggered", "data": data}}


class LambdaContext:
    def get_remaining_time_in_millis(self) -> int:
        return 60_000


class Stack:
    """Both functions as they are deployed, and what a person would look at."""

    def __init__(self, url: str) -> None:
        from functions.ingress import handler as ingress
        from functions.worker import handler as worker

        self._ingress = ingress.handler
        self._worker = worker.handler
        self.drained = Condition()
        self.events: list[dict[str, Any]] = []
        self.definitions = load(DEFINITIONS)
        store = DynamoStore(dynamodb_client(endpoint_url=url, region=REGION), NAMES)
        self.runtime = Runtime(store, MemoryBlobs())

    def queue(self, tenant: str) -> Queue:
        return self.runtime.queue(tenant, self.definitions.queue("WebhookIngress").spec)

    def post(self, tenant: str, incident: str) -> tuple[int, dict[str, Any]]:
        body = json.dumps(_triggered(incident)).encode()
        scheme = scheme_from(self.definitions.webhook("PagerDutyAlert").signature_settings or {})
        headers = sign(scheme, Secret("pagerduty", SECRET), body, system_clock())
        answer = self._ingress(
            {
                "version": "2.0",
                "rawPath": f"/hook/{tenant}/PagerDutyAlert",
                "rawQueryString": "",
                "headers": {"content-type": "application/json", **headers},
                "requestContext": {
                    "http": {"method": "POST", "sourceIp": "198.51.100.7"},
                    "domainName": "hooks.example.com",
                },
                "body": body.decode(),
                "isBase64Encoded": False,
            },
            LambdaContext(),
        )
        return answer["statusCode"], json.loads(answer["body"])

    def deliver(self, event: dict[str, Any]) -> None:
        self._worker(event, LambdaContext())
        with self.drained:
            self.events.append(event)
            self.drained.notify_all()


@pytest.fixture(scope="module")
def stream_engine() -> Iterator[str]:
    """An engine of its own: while other tests wrote beside, DynamoDB Local's stream was seen to deliver nothing."""
    with own_engine(NAMES, stream=True) as url:
        yield url


@pytest.fixture
def stack(stream_engine: str, tenant: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    settings = {
        "QUEUE_TABLE": NAMES.queue,
        "DEAD_LETTER_TABLE": NAMES.dead_letters,
        "BODY_BUCKET": "none",
        "DEFINITIONS": str(DEFINITIONS),
        "AWS_ENDPOINT_URL_DYNAMODB": stream_engine,
        "AWS_REGION": REGION,
        "COMMANDS": "tests.worker.bundle",
        "DEFAULT_TENANT": tenant,
        "PAGERDUTY_WEBHOOK_SECRET": SECRET,
        "POWERTOOLS_METRICS_NAMESPACE": "Millrace",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    from functions.ingress import handler as ingress
    from functions.worker import handler as worker

    ingress.ingress.cache_clear()
    worker.drainer.cache_clear()
    yield Stack(stream_engine)
    for runtime in (ingress.ingress().runtime, worker.drainer().runtime):
        runtime.store._calls.client.close()  # type: ignore[attr-defined]
    ingress.ingress.cache_clear()
    worker.drainer.cache_clear()


def test_a_posted_webhook_is_done_by_the_worker_that_its_stream_wakes(stack: Stack, tenant: str) -> None:
    queue = stack.queue(tenant)
    with StreamPoller(os.environ["AWS_ENDPOINT_URL_DYNAMODB"], NAMES.queue, stack.deliver, poll_s=0.01):
        posted = [stack.post(tenant, f"P{n}") for n in range(12)]
        assert {code for code, _ in posted} == {202}
        ids = [answer["message_id"] for _, answer in posted]
        with stack.drained:
            finished = stack.drained.wait_for(
                lambda: all(status(queue, message_id).status is MessageStatus.DONE for message_id in ids), WAIT_S
            )
    assert finished
    result = status(queue, ids[3]).result
    assert result is not None
    assert json.loads(result.snapshot) == {"incident": "P3", "severity": "critical", "fencing": 1}
    records = [record for event in stack.events for record in event["Records"]]
    assert all(record["eventName"] == "INSERT" and record["eventSource"] == "aws:dynamodb" for record in records)


def test_an_accepted_message_is_in_the_queue_at_once(stack: Stack, tenant: str) -> None:
    """Visible with the 202 itself: the entry was written before it, and reads are strongly consistent."""
    _, answer = stack.post(tenant, "P1")
    assert [entry.id for entry in list_entries(stack.queue(tenant)).items] == [answer["message_id"]]


def test_a_repeat_of_a_finished_webhook_gets_its_result(stack: Stack, tenant: str) -> None:
    stack.post(tenant, "P1")
    stack._worker({"tenant": tenant, "queue": "WebhookIngress"}, LambdaContext())
    code, answer = stack.post(tenant, "P1")
    assert (code, answer["result"]["incident"]) == (200, "P1")


def test_the_scheduled_sweep_finds_what_no_stream_reported(stack: Stack, tenant: str) -> None:
    _, answer = stack.post(tenant, "P1")
    stack._worker(json.loads((ROOT / "events" / "worker-schedule.json").read_text()), LambdaContext())
    assert status(stack.queue(tenant), answer["message_id"]).status is MessageStatus.DONE
