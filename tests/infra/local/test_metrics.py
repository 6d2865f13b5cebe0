"""`/metrics` of the local stack: there on the loopback, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.local import metrics
from infra.local.dynamodb import CREDENTIALS, REGION
from infra.local.gateway import GatewayResponse, Request, answer
from infra.local.metrics import metrics_binding
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.minimal_client import minimal_client
from millrace.worker.prometheus import RunMetrics

DEFINITIONS = Path(__file__).parents[3] / "infra" / "definitions.json"


@pytest.fixture
def environment(engine_url: str, tables: TableNames, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    clients: list[Any] = []

    def client(environment: Mapping[str, str]) -> Any:
        clients.append(minimal_client(environment))
        return clients[-1]

    monkeypatch.setattr(metrics, "minimal_client", client)
    monkeypatch.setattr(metrics, "run_metrics", RunMetrics)
    yield {
        **CREDENTIALS,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_DYNAMODB": engine_url,
        "QUEUE_TABLE": tables.queue,
        "DEAD_LETTER_TABLE": tables.dead_letters,
        "BODY_BUCKET": "none",
        "DEFINITIONS": str(DEFINITIONS),
    }
    for made in clients:
        made.close()


def asked(environment: dict[str, str], host: str) -> GatewayResponse:
    request = Request("GET", "/metrics", "", {"host": host}, b"", "127.0.0.1")
    return answer([metrics_binding(environment)], request)


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "localhost"])
def test_this_machine_is_told_how_the_queues_stand(environment: dict[str, str], host: str) -> None:
    found = asked(environment, host)
    assert found.status == 200
    assert found.headers["Content-Type"].startswith("text/plain; version=")
    assert b"millrace_store_up 1.0" in found.body
    assert b'millrace_queue_depth{queue="WebhookIngress"}' in found.body


@pytest.mark.parametrize("host", ["hooks.example.com", "hooks.example.com:443", "127.0.0.1.example.com"])
def test_a_tunnels_name_is_told_nothing(environment: dict[str, str], host: str) -> None:
    assert asked(environment, host).status == 404


def test_without_the_extra_it_says_what_to_install(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics, "has_prometheus", lambda: False)
    found = asked(environment, "localhost")
    assert (found.status, b"millrace[prometheus]" in found.body) == (404, True)
