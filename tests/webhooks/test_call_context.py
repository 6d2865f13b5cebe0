"""The context of a command that runs while its sender waits."""

from __future__ import annotations

import pytest

from millrace.model.errors import InvalidTransaction
from millrace.webhooks.call_context import CALL_MS, CallContext


def test_state_and_steps_last_as_long_as_the_call() -> None:
    context = CallContext("c", {"n": 1}, clock=lambda: 1_000)
    context.state.write({"page": 2})
    assert context.once("charge", lambda: "charged") == "charged"
    assert context.once("charge", lambda: "again") == "charged"
    assert (context.state.read(), context.state.steps()) == ({"page": 2}, {"charge": "charged"})
    assert CallContext("c", {"n": 1}).state.read() == {}


def test_time_left_ends_before_api_gateway_ends_the_call() -> None:
    now = [1_000]
    context = CallContext("c", None, clock=lambda: now[0])
    assert context.remaining_ms() == CALL_MS
    context.extend(60)
    now[0] += CALL_MS + 1
    assert context.remaining_ms() == 0


def test_two_calls_never_share_an_effect_s_key() -> None:
    one, two = CallContext("c", None), CallContext("c", None)
    assert one.idempotency_key("mail") == one.idempotency_key("mail")
    assert one.idempotency_key("mail") != two.idempotency_key("mail")


def test_there_is_no_ack_to_write_with() -> None:
    with pytest.raises(InvalidTransaction):
        CallContext("c", None).transact([])
