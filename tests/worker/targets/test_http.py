"""The `http` target: a signed post, and what its answers mean."""

from __future__ import annotations

import json

import pytest

from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.status import MessageStatus, status
from millrace.signatures import SecretSource, WebhookRequest, preset, verify
from millrace.worker.breaker import FAILURES
from millrace.worker.targets.http import retry_after_s
from tests.conftest import NOON, Bench
from tests.worker.conftest import AT_ONCE
from tests.worker.rigs import put_n
from tests.worker.targets.receiver import SECRET, Receiver, http_rig


def test_a_post_is_signed_and_carries_the_fencing_token(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    receiver.answers = [(200, {"content-type": "application/json"}, b'{"id":"x"}')]
    message_id = put_n(rig.queue(), 5, correlation_id="corr-9")
    rig.drain()
    ((path, headers, body),) = receiver.requests
    assert (path, json.loads(body)) == ("/hook", {"number": 5})
    request = WebhookRequest.build("POST", receiver.url, headers, body)
    secrets = SecretSource(bench.clock, environ={"OUT": SECRET}).resolve(["env:OUT"])
    proof = verify(preset("standard_webhooks"), request, secrets, bench.clock())
    assert proof.delivery_id == message_id
    assert (headers["millrace-claim-version"], headers["millrace-attempt"]) == ("1", "1")
    assert headers["x-correlation-id"] == "corr-9"
    result = status(rig.queue(), message_id).result
    assert result is not None
    assert result.snapshot == b'{"id":"x"}'


def test_connections_are_reused(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    for n in range(5):
        put_n(rig.queue(), n)
        rig.drain()
    assert (len(receiver.requests), receiver.connections) == (5, 1)


@pytest.mark.parametrize("code", [301, 307, 400, 401, 404, 422, 500, 502, 503])
def test_whatever_is_not_success_is_a_failed_run(bench: Bench, receiver: Receiver, code: int) -> None:
    rig = http_rig(bench, receiver)
    receiver.answers = [(code, {"location": receiver.url + "/elsewhere"}, b"no")]
    message_id = put_n(rig.queue())
    rig.drain()
    entry = rig.entry(message_id)
    assert (entry.attempts, entry.due) == (1, bench.clock() + 1_000)
    assert len(receiver.requests) == 1


def test_429_waits_as_asked_and_charges_nothing(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    receiver.answers = [(429, {"retry-after": "17"}, b"")]
    message_id = put_n(rig.queue())
    rig.drain()
    entry = rig.entry(message_id)
    assert (entry.attempts, entry.due) == (0, bench.clock() + 17_000)


def test_503_waits_as_asked_and_is_charged(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    receiver.answers = [(503, {"retry-after": "30"}, b"")]
    message_id = put_n(rig.queue())
    rig.drain()
    entry = rig.entry(message_id)
    assert (entry.attempts, entry.due) == (1, bench.clock() + 30_000)


def test_410_is_rejected(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    receiver.answers = [(410, {}, b"")]
    put_n(rig.queue())
    rig.drain()
    (dead_letter,) = list_dead_letters(rig.queue()).items
    assert dead_letter.reason == "rejected"


def test_redirects_are_followed_only_where_allowed(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver, follow_redirects=True)
    receiver.answers = [(307, {"location": "/elsewhere"}, b"")]
    message_id = put_n(rig.queue())
    rig.drain()
    assert [path for path, _, _ in receiver.requests] == ["/hook", "/elsewhere"]
    assert status(rig.queue(), message_id).status is MessageStatus.DONE


def test_redirects_end(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver, follow_redirects=True)
    receiver.answers = [(307, {"location": "/again"}, b"")] * 50
    message_id = put_n(rig.queue())
    rig.drain()
    assert rig.entry(message_id).attempts == 1
    assert len(receiver.requests) == 4


def test_loopback_is_refused_unless_allowed(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver, allow_loopback=False)
    put_n(rig.queue())
    rig.drain()
    assert not receiver.requests
    (dead_letter,) = list_dead_letters(rig.queue()).items
    assert dead_letter.reason == "rejected"


def test_an_endpoint_that_is_down_trips_its_breaker(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver)
    receiver.close()
    for n in range(30):
        put_n(rig.queue(), n)
    rig.drain()
    assert list(rig.queue().state(fresh=True).breakers) == [f"http:{receiver.url}"]
    charged = [rig.queue().store.read_lane(pk, "R#", "~", 100) for pk in rig.queue().partitions()]
    assert sum(entry.attempts for page in charged for entry in page.items) <= FAILURES + AT_ONCE.concurrency


def test_without_a_secret_nothing_is_sent(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver, signing=())
    put_n(rig.queue())
    rig.drain()
    assert not receiver.requests


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12", 12.0),
        (" 0 ", 0.0),
        ("", None),
        (None, None),
        ("soon", None),
        ("-5", None),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("9" * 400, None),
    ],
)
def test_retry_after_in_both_forms(text: str | None, seconds: float | None) -> None:
    assert retry_after_s(text, NOON) == seconds
