"""The `http` target: a signed post, and what its answers mean."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.status import MessageStatus, status
from millrace.signatures import Secret, SecretSource, SignatureInvalid, WebhookRequest, preset, verify
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


def _signed_by(receiver: Receiver, at: int, **secrets: str) -> set[str]:
    """Whose secret the last post was signed with."""
    _, headers, body = receiver.requests[-1]
    request = WebhookRequest.build("POST", receiver.url, headers, body)
    found = set()
    for name, value in secrets.items():
        try:
            verify(preset("standard_webhooks"), request, [Secret(name, value)], at)
        except SignatureInvalid:
            continue
        found.add(name)
    return found


OWN, OTHER = (f"whsec_{b64encode(bytes([n]) * 32).decode()}" for n in (1, 2))
SEED = bytes([3]) * 32
PRIVATE = f"whsk_{b64encode(SEED).decode()}"


def test_a_target_with_a_secret_of_its_own_signs_with_that_alone(bench: Bench, receiver: Receiver) -> None:
    """One receiver's secret must not let it forge calls to another: nothing is signed with the deployment's."""
    rig = http_rig(bench, receiver, options='(secret_env: "OWN")', secrets={"OWN": OWN})
    put_n(rig.queue())
    rig.drain()
    assert _signed_by(receiver, bench.clock(), own=OWN, deployment=SECRET, other=OTHER) == {"own"}


def test_during_a_rotation_both_of_a_targets_secrets_sign(bench: Bench, receiver: Receiver) -> None:
    both = '(secret_env: "OWN"  secret_env: "NEXT")'
    rig = http_rig(bench, receiver, options=both, secrets={"OWN": OWN, "NEXT": OTHER})
    put_n(rig.queue())
    rig.drain()
    assert _signed_by(receiver, bench.clock(), own=OWN, deployment=SECRET, other=OTHER) == {"own", "other"}


def test_a_target_whose_secret_is_missing_is_not_called_with_anothers(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver, options='(secret_env: "UNSET")')
    message_id = put_n(rig.queue())
    rig.drain()
    assert (receiver.requests, rig.entry(message_id).attempts) == ([], 1)


def test_a_private_key_signs_what_its_public_half_verifies(bench: Bench, receiver: Receiver) -> None:
    rig = http_rig(bench, receiver, options='(secret_env: "OWN")', secrets={"OWN": PRIVATE})
    put_n(rig.queue())
    rig.drain()
    raw = Ed25519PrivateKey.from_private_bytes(SEED).public_key().public_bytes_raw()
    assert _signed_by(receiver, bench.clock(), own=f"whpk_{b64encode(raw).decode()}", deployment=SECRET) == {"own"}
