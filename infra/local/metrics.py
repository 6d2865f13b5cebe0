"""`/metrics` of the local stack: how the queues stand and what ran, for Prometheus. On the loopback alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from infra.local.gateway import LOOPBACK, Binding
from millrace.aws.runtime import aws_runtime, deployed_definitions
from millrace.aws.settings import Settings
from millrace.stores.dynamodb.minimal_client import minimal_client
from millrace.worker.prometheus import QueueGauges, has_prometheus, registry_with, run_metrics

MISSING = 'There is no prometheus_client: pip install "millrace[prometheus]"\n'
_PLAIN = {"Content-Type": "text/plain; charset=utf-8"}


def metrics_binding(environment: Mapping[str, str]) -> Binding:
    """The gateway's route, with the tables that this environment names."""

    @cache
    def registry() -> Any:
        settings = Settings.from_environment(environment)
        runtime = aws_runtime(settings, minimal_client(environment))
        return registry_with(run_metrics(), QueueGauges(runtime, deployed_definitions(settings)))

    def answer(event: dict[str, Any], _context: Any = None) -> dict[str, Any]:
        host = event["requestContext"]["domainName"].rpartition(":")[0] or event["requestContext"]["domainName"]
        if host not in LOOPBACK:  # a tunnel's name: webhooks come that way, and nobody asks how the queues stand
            return {"statusCode": 404, "headers": _PLAIN, "body": "Not Found\n"}
        if not has_prometheus():
            return {"statusCode": 404, "headers": _PLAIN, "body": MISSING}
        from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

        body = generate_latest(registry()).decode()
        return {"statusCode": 200, "headers": {"Content-Type": CONTENT_TYPE_LATEST}, "body": body}

    return Binding("GET /metrics", answer)
