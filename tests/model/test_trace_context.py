"""What anybody may send as a trace context: kept where it is well-formed, dropped where it is not."""

from __future__ import annotations

import pytest

from millrace.model.trace_context import current_trace, onward_trace, trace_of, traced

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STATE = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"


def test_a_well_formed_context_is_kept_and_handed_on() -> None:
    headers = {"x-github-event": "push", "traceparent": PARENT, "tracestate": STATE}
    assert trace_of(headers) == {"traceparent": PARENT, "tracestate": STATE}
    assert traced(headers) == headers
    assert onward_trace(headers) == {"traceparent": PARENT, "tracestate": STATE}


@pytest.mark.parametrize(
    "parent",
    [
        "",
        PARENT.upper(),
        PARENT + "-00",
        PARENT + "\n",
        " " + PARENT,
        PARENT.replace("00-4", "01-4"),
        PARENT.replace("00-4", "ff-4"),
        PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32),
        PARENT.replace("00f067aa0ba902b7", "0" * 16),
        PARENT.replace("-01", "-1"),
        "x" * 100_000,
        "٠" * 55,
    ],
)
def test_a_malformed_context_is_dropped_with_its_state_and_nothing_else(parent: str) -> None:
    headers = {"a": "b", "traceparent": parent, "tracestate": STATE}
    assert trace_of(headers) == {}
    assert traced(headers) == {"a": "b"}


@pytest.mark.parametrize(
    "state",
    [
        *("a", "a=b,", "A=b", "a=b=c", "a=é", "a=b\n", "a=b\x00", "=b", "a=" + "b" * 257),
        ",".join(f"k{n}=v" for n in range(33)),
        "a=" + "b" * 600,
    ],
)
def test_a_malformed_state_is_dropped_alone(state: str) -> None:
    assert traced({"traceparent": PARENT, "tracestate": state}) == {"traceparent": PARENT}


@pytest.mark.parametrize("state", ["a=b", "fw529a3039@dt=FfAAAAA, a/b*=c d", ",".join(f"k{n}=v" for n in range(32))])
def test_a_state_of_several_systems_is_kept(state: str) -> None:
    assert trace_of({"traceparent": PARENT, "tracestate": state})["tracestate"] == state


def test_a_state_without_its_parent_is_dropped() -> None:
    assert traced({"tracestate": STATE, "a": "b"}) == {"a": "b"}


def test_without_a_span_nothing_is_added_and_nothing_is_copied() -> None:
    headers = {"a": "b"}
    assert traced(headers) is headers
    assert current_trace() == {}
