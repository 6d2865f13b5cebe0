"""Repeats: only what is safe to repeat, after what the server asks for, and not for ever."""

from __future__ import annotations

import httpx
import pytest

from millrace.client import (
    Busy,
    Client,
    Unreachable,
)
from tests.client.conftest import Pauses, Wire


def test_a_dequeue_without_an_answer_is_not_repeated(client: Client, wire: Wire) -> None:
    client.enqueue("Jobs", 1)
    wire.after = lambda _request: httpx.ReadTimeout("gone")
    sent = len(wire.requests)
    with pytest.raises(Unreachable):
        client.claim("Jobs")
    assert len(wire.requests) == sent + 1


def test_a_dequeue_that_never_left_is_repeated(client: Client, wire: Wire) -> None:
    client.enqueue("Jobs", 1)
    lost = iter([httpx.ConnectError("refused"), None])
    wire.before = lambda _request: next(lost)
    assert len(client.claim("Jobs")) == 1


@pytest.mark.parametrize(
    ("status", "code", "sends"), [(503, "queue_full", 2), (503, "store_unavailable", 1), (502, "", 1)]
)
def test_only_what_did_nothing_is_repeated_for_a_dequeue(
    client: Client, wire: Wire, status: int, code: str, sends: int
) -> None:
    client.enqueue("Jobs", 1)
    before, answers = len(wire.requests), iter([httpx.Response(status, json={"code": code}), None])
    wire.before = lambda _request: next(answers)
    if sends == 1:
        with pytest.raises(Busy):
            client.claim("Jobs")
    else:
        client.claim("Jobs")
    assert len(wire.requests) == before + sends


@pytest.mark.parametrize("verb", ["nack", "release"])
def test_a_store_that_did_not_answer_may_have_done_it(client: Client, wire: Wire, verb: str) -> None:
    client.enqueue("Jobs", 1)
    (job,) = client.dequeue("Jobs")
    answers = iter([httpx.Response(503, json={"code": "store_unavailable"}), None])
    wire.after = lambda _request: next(answers)
    getattr(job, verb)()
    assert job.finished


def test_retry_after_is_respected_and_tries_are_bounded(client: Client, wire: Wire, pauses: Pauses) -> None:
    wire.before = lambda _request: httpx.Response(429, headers={"Retry-After": "3"}, json={"code": "too_many_waiting"})
    with pytest.raises(Busy) as refused:
        client.claim("Jobs")
    assert refused.value.code == "too_many_waiting"
    assert pauses == [3.2, 3.4, 3.8]
