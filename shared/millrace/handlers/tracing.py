"""Spans by OpenTelemetry (extra `otel`): one for each run of a handler, in the trace of the message's sender.

Nothing of it is imported here before somebody asks for it: an agent that loaded OpenTelemetry before us, or the usual
OTEL_* variables in `configure`. Where it is not loaded, a run costs one look into a dictionary.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from millrace.model.trace_context import TRACEPARENT, trace_of

log = logging.getLogger("millrace.tracing")
_API = "opentelemetry.trace"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
#: OpenTelemetry's own name of an exporter → the names that packages register it under.
_PACKAGED = {"otlp": ("otlp_proto_http", "otlp_proto_grpc")}
FLUSH_MS = 2_000


def configure(environment: Mapping[str, str]) -> bool:
    """Set OpenTelemetry up where its variables name an exporter; whether spans are made.

    OTEL_TRACES_EXPORTER names it (otlp, console; none); an OTLP endpoint alone means otlp. Sampling, resource and the
    exporter's own settings are read by the SDK from its own variables. A provider that is there already is left alone.
    """
    wanted = environment.get("OTEL_TRACES_EXPORTER", "otlp" if any(map(environment.get, _ENDPOINTS)) else "")
    names = [name.strip() for name in wanted.split(",") if name.strip() not in ("", "none")]
    if not names or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("OTEL_* variables name an exporter, but `millrace[otel]` is not installed: no spans are made.")
        return False
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return True
    provider = TracerProvider()
    for name in names:
        provider.add_span_processor(BatchSpanProcessor(_exporter(name)))
    trace.set_tracer_provider(provider)
    return True


def _exporter(name: str) -> Any:
    for packaged in _PACKAGED.get(name, (name,)):
        for found in entry_points(group="opentelemetry_traces_exporter", name=packaged):
            return found.load()()
    raise ValueError(f"OTEL_TRACES_EXPORTER: no package that is installed exports to {name!r}.")


def flush() -> None:
    """Send what is waiting, before a Lambda is frozen."""
    api: Any = sys.modules.get(_API)
    if api is not None:
        force = getattr(api.get_tracer_provider(), "force_flush", None)
        if force is not None:
            force(FLUSH_MS)


@contextmanager
def run_span(queue: str, headers: Mapping[str, str], fields: Mapping[str, Any]) -> Iterator[None]:
    """The span of one run: a child of what the message came from, and linked with it, as every retry's is.

    `fields` are those of the run's log lines. An exception is named by its type: its text can hold anything.
    """
    api: Any = sys.modules.get(_API)
    if api is None:
        yield
        return
    parent = _parent(api, headers)
    links = [api.Link(parent)] if parent is not None else []
    around = None if parent is None else api.set_span_in_context(api.NonRecordingSpan(parent))
    with api.get_tracer("millrace").start_as_current_span(
        f"process {queue}",
        context=around,
        kind=api.SpanKind.CONSUMER,
        links=links,
        attributes=_attributes(queue, fields),
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            span.set_status(api.Status(api.StatusCode.ERROR, type(error).__name__))
            raise


def _parent(api: Any, headers: Mapping[str, str]) -> Any:
    """The context that a message carries; None without one."""
    found = trace_of(headers)
    if not found:
        return None
    _, trace_id, span_id, flags = found[TRACEPARENT].split("-")
    state = api.TraceState.from_header([found["tracestate"]]) if "tracestate" in found else api.TraceState()
    return api.SpanContext(
        int(trace_id, 16),
        int(span_id, 16),
        is_remote=True,
        trace_flags=api.TraceFlags(int(flags, 16)),
        trace_state=state,
    )


def _attributes(queue: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """By OpenTelemetry's conventions for messaging, and the run's own."""
    return {
        "messaging.system": "millrace",
        "messaging.operation.type": "process",
        "messaging.destination.name": queue,
        "messaging.message.id": str(fields["message_id"]),
        "messaging.message.conversation_id": str(fields["correlation_id"]),
        "millrace.attempt": int(fields["attempt"]),
    }
