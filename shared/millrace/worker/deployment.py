"""A drainer on AWS, from the environment: what the worker function and the worker process share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from millrace.aws.functions import event_sender, lambda_client
from millrace.aws.runtime import aws_runtime, deployed_definitions
from millrace.aws.settings import Settings
from millrace.definitions import Definitions, TargetKind
from millrace.engine.queue import Runtime
from millrace.handlers import tracing
from millrace.model.clock import system_clock
from millrace.stores.dynamodb.minimal_client import minimal_client
from millrace.worker.body_budget import DEFAULT_MEMORY, BodyBudget
from millrace.worker.commands import load_commands
from millrace.worker.context import RunContext
from millrace.worker.drainer import InvokeWorker, QueueDrainer, WakeRequest
from millrace.worker.metrics import emit_metrics, log_drain
from millrace.worker.middleware import Middleware, logging_middleware, tracing_middleware
from millrace.worker.targets.chain import QueueDelivery
from millrace.worker.targets.request import Deliver, TargetRequest
from millrace.worker.wakeup import wake_event
from millrace.worker.worker import WorkerSettings

#: A Lambda target may take as long as a Lambda can.
MAX_INVOCATION_S = 900.0


class LazyDelivery:
    """A delivery that is made when it is first needed: its imports are paid by the queues that use it."""

    def __init__(self, make: Any) -> None:
        self._make = cache(make)

    def __call__(self, context: RunContext, request: TargetRequest) -> Any:
        return self._make()(context, request)


def drainer_from(environment: Mapping[str, str], *, runtime: Runtime | None = None) -> QueueDrainer:
    """A drainer as the environment describes it.

    COMMANDS                   modules that register commands, comma-separated
    WORKER_CONCURRENCY         runs at the same time in one worker (10)
    WORKER_FUNCTION            the worker's own name, to invoke more of them; unset: none is invoked
    TARGET_SIGNING_SECRETS     references of the secrets that sign http targets without one of their own
    TARGET_SECRETS             where the secrets lie that `map_to: http` names: one JSON object, a key a name
    TARGET_FOLLOW_REDIRECTS    "1" to follow them
    TARGET_ALLOW_LOOPBACK      "1" in development only
    PROMETHEUS                 "1" to count runs for `/metrics` of this process (extra `prometheus`)
    OTEL_…                     OpenTelemetry's own: an exporter that they name gets a span for each run
    AWS_LAMBDA_FUNCTION_MEMORY_SIZE   MB of the process (512): what large bodies may take at once
    LOG_HISTORY                "1" to record what happens to messages
    """
    tracing.configure(environment)
    settings = Settings.from_environment(environment)
    definitions = deployed_definitions(settings)
    return QueueDrainer(
        runtime or aws_runtime(settings, minimal_client(environment)),
        definitions,
        deliveries_from(environment, definitions),
        WorkerSettings(concurrency=int(environment.get("WORKER_CONCURRENCY", "10"))),
        middleware=_middleware(environment),
        default_tenant=settings.default_tenant,
        invoke_worker=_invoke_worker(environment.get("WORKER_FUNCTION", "")),
        emit=(emit_metrics, log_drain, lambda _queue, _result: tracing.flush()),
        budget=BodyBudget.of_memory(int(environment.get("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", DEFAULT_MEMORY))),
    )


def deliveries_from(environment: Mapping[str, str], definitions: Definitions) -> dict[TargetKind, Deliver]:
    """One delivery for each kind of target."""
    commands = load_commands(_listed(environment, "COMMANDS"))
    return {
        TargetKind.COMMAND: commands,
        TargetKind.QUEUE: QueueDelivery(definitions.queue),
        TargetKind.HTTP: LazyDelivery(lambda: _http(environment)),
        TargetKind.LAMBDA: LazyDelivery(_lambda),
    }


#: The variable that names where the targets' secrets lie.
TARGET_SECRETS = "TARGET_SECRETS"


def _http(environment: Mapping[str, str]) -> Deliver:
    from millrace.aws.secrets import powertools_fetch
    from millrace.signatures import SecretSource
    from millrace.worker.targets.http import HttpDelivery, HttpSettings

    settings = HttpSettings(
        tuple(_listed(environment, "TARGET_SIGNING_SECRETS")),
        follow_redirects=environment.get("TARGET_FOLLOW_REDIRECTS") == "1",
        allow_loopback=environment.get("TARGET_ALLOW_LOOPBACK") == "1",
    )
    secrets = SecretSource(system_clock, environ=environment, open_store=powertools_fetch, store=TARGET_SECRETS)
    return HttpDelivery(settings, secrets)


def _lambda() -> Deliver:
    from millrace.worker.targets.lambda_function import LambdaDelivery

    return LambdaDelivery(lambda_client(MAX_INVOCATION_S))


def _middleware(environment: Mapping[str, str]) -> tuple[Middleware, ...]:
    if environment.get("PROMETHEUS") != "1":
        return (logging_middleware, tracing_middleware)
    from millrace.worker.prometheus import run_metrics

    return (logging_middleware, tracing_middleware, run_metrics().middleware)


def _invoke_worker(function: str) -> InvokeWorker | None:
    """Starts another worker: an asynchronous invocation of the worker's own function."""
    if not function:
        return None

    send = event_sender(function)

    def invoke_worker(wake_request: WakeRequest) -> None:
        send(wake_event(wake_request))

    return invoke_worker


def _listed(environment: Mapping[str, str], name: str) -> list[str]:
    return [part.strip() for part in environment.get(name, "").split(",") if part.strip()]
