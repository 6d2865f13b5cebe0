"""W3C trace context among a message's headers: `traceparent` and `tracestate`.

They come from anybody, so what is malformed is dropped, never refused: a trace is no reason to lose a message. Where
OpenTelemetry is not loaded, this is all there is to traces: what came with a message goes on with whatever it makes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
TRACE_HEADERS = (TRACEPARENT, TRACESTATE)
#: Version 00 alone: 55 characters, neither id all zeros.
_PARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_MEMBER = re.compile(r"[a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]")
STATE_CHARACTERS, STATE_MEMBERS = 512, 32


def trace_of(headers: Mapping[str, str]) -> dict[str, str]:
    """The trace context of these headers, where it is well-formed; empty without one."""
    parent = headers.get(TRACEPARENT, "")
    if not _PARENT.fullmatch(parent):
        return {}
    state = headers.get(TRACESTATE, "")
    return {TRACEPARENT: parent, TRACESTATE: state} if _is_state(state) else {TRACEPARENT: parent}


def _is_state(state: str) -> bool:
    if not state or len(state) > STATE_CHARACTERS:
        return False
    members = [member.strip(" \t") for member in state.split(",")]
    return len(members) <= STATE_MEMBERS and all(map(_MEMBER.fullmatch, members))


def current_trace() -> dict[str, str]:
    """The trace context of the span that runs here, by OpenTelemetry; empty where nobody has loaded it."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return {}
    span = api.get_current_span().get_span_context()
    if not span.is_valid:
        return {}
    found = {TRACEPARENT: f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"}
    state = span.trace_state.to_header()
    return {**found, TRACESTATE: state} if _is_state(state) else found


def onward_trace(headers: Mapping[str, str]) -> dict[str, str]:
    """What a message hands on to what it makes: the span of its run, or what came with it."""
    return current_trace() or trace_of(headers)


def traced(headers: Mapping[str, str]) -> Mapping[str, str]:
    """A new message's headers: with the trace that came, or the one it is sent in; without what is malformed."""
    if TRACEPARENT not in headers and TRACESTATE not in headers:
        found = current_trace()
        return {**headers, **found} if found else headers
    kept = {name: value for name, value in headers.items() if name not in TRACE_HEADERS}
    return {**kept, **(trace_of(headers) or current_trace())}
