"""Spans through a message's whole life, by OpenTelemetry's in-memory exporter; and nothing of it where nobody asks."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from millrace.client import AsyncClient, AsyncConsumer, Client, Consumer, NewMessage
from millrace.engine.dead_letters import list_dead_letters, replay
from millrace.handlers import tracing
from millrace.model.trace_context import current_trace
from millrace.signatures import SecretSource
from millrace.worker.middleware import tracing_middleware
from millrace.worker.targets.http import HttpDelivery, HttpSettings
from tests.client.conftest import URL, Pauses, Wire, client, pauses, service, time, wire  # noqa: F401 (fixtures)
from tests.conftest import Bench
from tests.worker.definitions import TYPE
from tests.worker.rigs import TargetRig, put_n
from tests.worker.targets.receiver import SECRET, Receiver

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SENDER = f"00-{TRACE}-00f067aa0ba902b7-01"
HEADERS = {"traceparent": SENDER, "tracestate": "congo=t61"}
EXPORTER = InMemorySpanExporter()
LIFE = f"""
queue Jobs {{ {TYPE}  map_to: queue Work {{ n: n }} }}
queue Work {{
  {TYPE}
  delivery {{ max_attempts: 2  initial_backoff_ms: 1000  backoff: none }}
  map_to: command Thing.Do {{ n: n }}
}}
queue Posted {{ {TYPE}  map_to: http "URL" {{ n: n }} }}
"""


@pytest.fixture(autouse=True)
def _provider() -> Iterator[None]:
    """A provider is set once in a process."""
    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(EXPORTER))
        trace.set_tracer_provider(provider)
    EXPORTER.clear()
    yield
    EXPORTER.clear()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


@pytest.fixture
def rig(memory_bench: Bench, receiver: Receiver) -> TargetRig:
    settings = HttpSettings(("env:OUT",), allow_loopback=True)
    http = HttpDelivery(settings, SecretSource(memory_bench.clock, environ={"OUT": SECRET}))
    made = TargetRig(memory_bench, LIFE.replace("URL", receiver.url), http=http)
    made.drainer.middleware = (tracing_middleware,)
    return made


def spans() -> list[ReadableSpan]:
    return list(EXPORTER.get_finished_spans())


def parent_of(span: ReadableSpan) -> str:
    assert span.parent is not None
    return f"00-{span.parent.trace_id:032x}-{span.parent.span_id:016x}-01"


def own(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


def attribute(span: ReadableSpan, name: str) -> Any:
    return (span.attributes or {})[name]


def test_one_trace_from_the_sender_to_the_replay(rig: TargetRig, memory_bench: Bench) -> None:
    """Chain, failing runs, dead letter, replay: every run is a span of the sender's trace."""
    seen: list[dict[str, str]] = []
    failing = [True, True]

    @rig.commands.command("Thing.Do")
    def do(_given: dict[str, Any]) -> None:
        seen.append(current_trace())
        if failing and failing.pop():
            raise ValueError("the card 4111 was refused")

    put_n(rig.queue(), 7, headers=HEADERS)
    rig.drain()
    rig.drain("Work")
    memory_bench.clock.forward(1_000)
    rig.drain("Work")
    (letter,) = list_dead_letters(rig.queue("Work")).items
    chained, first, second = spans()
    assert letter.message.headers["traceparent"] == own(chained)
    replay(rig.queue("Work"), letter, "job")
    rig.drain("Work")
    replayed = spans()[-1]
    assert [span.name for span in spans()] == ["process Jobs", *["process Work"] * 3]
    assert {f"{span.context.trace_id:032x}" for span in spans() if span.context} == {TRACE}
    assert parent_of(chained) == SENDER
    assert {parent_of(span) for span in (first, second, replayed)} == {own(chained)}
    for span in (first, second, replayed):
        (link,) = span.links
        assert chained.context is not None
        assert link.context.span_id == chained.context.span_id
    assert [attribute(span, "millrace.attempt") for span in (first, second, replayed)] == [1, 2, 1]
    assert attribute(first, "messaging.destination.name") == "Work"
    assert [span.status.is_ok for span in (first, second, replayed)] == [False, False, True]
    assert [one["traceparent"] for one in seen] == [own(span) for span in (first, second, replayed)]
    assert all(one["tracestate"] == "congo=t61" for one in seen)
    assert "4111" not in "".join(span.to_json() for span in spans()), "what was raised is named by its type"


def test_an_http_target_is_handed_the_span_of_the_run(rig: TargetRig, receiver: Receiver) -> None:
    put_n(rig.queue("Posted"), 7, headers=HEADERS)
    rig.drain("Posted")
    (span,) = spans()
    ((_, headers, _),) = receiver.requests
    assert (headers["traceparent"], headers["tracestate"]) == (own(span), "congo=t61")
    assert parent_of(span) == SENDER


@pytest.mark.parametrize("headers", [{}, {"traceparent": "nonsense"}, {"traceparent": SENDER.upper()}])
def test_a_message_without_a_trace_begins_one(rig: TargetRig, headers: dict[str, str]) -> None:
    put_n(rig.queue("Posted"), 7, headers=headers)
    rig.drain("Posted")
    (span,) = spans()
    assert span.parent is None
    assert not span.links


def test_a_message_that_is_sent_within_a_span_belongs_to_it(rig: TargetRig) -> None:
    with trace.get_tracer("app").start_as_current_span("place order") as sending:
        put_n(rig.queue("Posted"))
    rig.drain("Posted")
    run = next(span for span in spans() if span.name == "process Posted")
    assert run.parent is not None
    assert run.parent.span_id == sending.get_span_context().span_id


def test_a_trace_goes_on_over_the_pull_api(client: Client) -> None:  # noqa: F811
    """The client sends its span's context along; the consumer's run is a child of it."""
    seen: list[str] = []
    consumer = Consumer(client, concurrency=1)

    @consumer.handle("Jobs", wait_ms=0)
    def work(_given: Any) -> None:
        seen.append(current_trace()["traceparent"])

    with trace.get_tracer("app").start_as_current_span("place order") as sending:
        client.enqueue("Jobs", "x")
        client.enqueue_all("Jobs", [NewMessage("y")])
    consumer.run(drain=True)
    runs = [span for span in spans() if span.name == "process Jobs"]
    assert [own(span) for span in runs] == seen
    assert {span.parent.span_id for span in runs if span.parent} == {sending.get_span_context().span_id}
    assert len(runs) == 2


async def _consume(wire: Wire, seen: list[str]) -> None:  # noqa: F811
    async with AsyncClient(URL, "mrt_x", transport=wire) as made:
        consumer = AsyncConsumer(made, concurrency=1)

        @consumer.handle("Jobs", wait_ms=0)
        async def work(_given: Any) -> None:
            seen.append(current_trace()["traceparent"])

        await consumer.run(drain=True)


def test_the_same_where_calls_are_awaited(client: Client, wire: Wire) -> None:  # noqa: F811
    seen: list[str] = []
    with trace.get_tracer("app").start_as_current_span("place order"):
        client.enqueue("Jobs", "x")
    asyncio.run(_consume(wire, seen))
    (run,) = [span for span in spans() if span.name == "process Jobs"]
    assert seen == [own(run)]


# -- set up by the usual variables -----------------------------------------------------------------------------------

PROGRAM = """
import json, os, sys
from millrace.engine.enqueue import enqueue
from millrace.engine.queue import Runtime
from millrace.handlers import tracing
from millrace.model.message import Draft
from millrace.model.queue_spec import QueueSpec
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.worker.deployment import drainer_from
from millrace.worker.middleware import tracing_middleware
from millrace.worker.worker import Worker, WorkerSettings

on = tracing.configure(os.environ)
queue = Runtime(MemoryStore(), MemoryBlobs()).queue("t", QueueSpec("Jobs"))
enqueue(queue, Draft(b"x", headers={"traceparent": sys.argv[1]}))
Worker(queue, lambda context: None, settings=WorkerSettings(patience_ms=0), middleware=(tracing_middleware,)).run()
tracing.flush()
print(json.dumps({"on": on, "loaded": any(name.startswith("opentelemetry") for name in sys.modules)}))
"""


def ran(**environment: str) -> tuple[dict[str, Any], str]:
    """A worker in a fresh process: whether spans are on and anything is loaded, and what it printed before."""
    given = {**{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}, **environment}
    command = [sys.executable, "-W", "error", "-c", PROGRAM, SENDER]
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=True)
    before, _, last = done.stdout.strip().rpartition("\n")
    return json.loads(last), before


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_SERVICE_NAME": "shop"},
    ],
)
def test_nothing_is_loaded_where_nobody_asks(environment: dict[str, str]) -> None:
    assert ran(**environment) == ({"on": False, "loaded": False}, "")


def test_the_usual_variables_name_exporter_sampler_and_service() -> None:
    told, printed = ran(OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="shop")
    assert told["on"]
    span = json.loads(printed)
    assert (span["name"], span["context"]["trace_id"]) == ("process Jobs", f"0x{TRACE}")
    assert span["resource"]["attributes"]["service.name"] == "shop"
    _, printed = ran(OTEL_TRACES_EXPORTER="console", OTEL_TRACES_SAMPLER="always_off")
    assert printed == ""


def test_an_exporter_that_is_not_installed_is_named() -> None:
    with pytest.raises(ValueError, match="no package that is installed exports to 'zipkin'"):
        tracing._exporter("zipkin")


def test_otlp_is_the_exporter_that_the_extra_installs() -> None:
    assert type(tracing._exporter("otlp")).__name__ == "OTLPSpanExporter"


def test_without_the_extra_traces_are_passed_on_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    assert not tracing.configure({"OTEL_TRACES_EXPORTER": "otlp"})
    assert "millrace[otel]" in caplog.text
