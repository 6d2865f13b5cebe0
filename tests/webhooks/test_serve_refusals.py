"""A webhook that is refused: with the right status, a stable code, and nothing of use to a stranger."""

from __future__ import annotations

import json

import pytest

from millrace.http.problems import problem
from millrace.model.errors import InvalidMessage
from tests.webhooks.gate import SECRET, Gate, signed, v2

BODY = b'{"id": "evt_1", "type": "t", "created": 1, "data": {"object": {"customer": "c"}}, "event": {"id": "e"}}'


def test_reason_of_a_refusal_is_a_metric_and_not_in_the_answer(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    answer = gate.call(v2(signed("Stripe", BODY, gate.now() - 301_000)))
    (counted,) = [json.loads(line) for line in capsys.readouterr().out.splitlines() if '"Refused"' in line]
    assert (counted["reason"], counted["webhook"]) == ("timestamp_outside_tolerance", "Stripe")
    assert "timestamp" not in answer.text


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD", "OPTIONS", ""])
def test_other_methods_are_405(gate: Gate, method: str) -> None:
    event = v2(signed("GitHub", BODY, gate.now()))
    event["requestContext"]["http"]["method"] = method
    answer = gate.call(event)
    assert (answer.status, answer.headers["Allow"]) == (405, "POST")


def test_message_of_another_type_is_422_with_every_path(gate: Gate) -> None:
    answer = gate.send("Stripe", b'{"id": 7, "type": "invoice.paid", "data": {}}')
    assert (answer.status, answer.json["code"]) == (422, "invalid_message")
    assert answer.json["problems"] == [
        {"path": "payload.id", "expected": "a string", "found": "an int"},
        {"path": "payload.created", "expected": "an int", "found": "nothing"},
    ]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", "not JSON at character 0"),
        (b"{", "not JSON at character 1"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1e999}', "a number too large for a float"),
        (b"[" * 65 + b"]" * 65, "nested more than 64 deep"),
        (b"[" * 100_000, "nested more than 64 deep"),
        (b'{"a":' * 3_000 + b"1" + b"}" * 3_000, "nested more than 64 deep"),
    ],
)
def test_body_that_is_not_json_as_we_read_it_is_422(gate: Gate, body: bytes, found: str) -> None:
    answer = gate.send("Generic", body)
    assert (answer.status, answer.json["problems"]) == (422, [{"path": "payload", "expected": "JSON", "found": found}])


def test_number_of_ten_thousand_digits_is_422(gate: Gate) -> None:
    assert gate.send("Generic", b"9" * 10_000).status == 422
    assert gate.send("Generic", b"9" * 4_000).status == 202


def test_text_that_is_not_utf8_is_422_and_the_same_bytes_as_bytes_are_taken(gate: Gate) -> None:
    headers = {"content-type": "application/octet-stream"}
    assert gate.send("Text", b"\xff\xfe", headers=headers).status == 422
    assert gate.send("Binary", b"\xff\xfe", headers=headers).status == 202


@pytest.mark.parametrize(("endpoint", "expected"), [("Tight", 429)])
def test_full_queue_sheds_in_the_provider_s_dialect(gate: Gate, endpoint: str, expected: int) -> None:
    for number in range(2):
        assert gate.send(endpoint, b'{"event": {"id": "e-%d"}}' % number).status == 202
    answer = gate.send(endpoint, b'{"event": {"id": "e-3"}}')
    assert (answer.status, answer.json["status"], answer.json["code"]) == (expected, expected, "queue_full")
    assert int(answer.headers["Retry-After"]) > 0


def test_shed_is_counted(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        gate.send("Tight", b'{"event": {"id": "e-%d"}}' % number)
    names = [line for line in capsys.readouterr().out.splitlines() if '"Shed":[1' in line.replace(" ", "")]
    assert len(names) == 1


def test_nothing_of_the_sender_reaches_the_log(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    marks = {"authorization": "Bearer mark-1", "cookie": "mark-2", "x-api-key": "mark-3", "user-agent": "mark-4"}
    body = b'{"incident": {"id": "mark-5"}}'
    for secret in (SECRET, "whsec_wrong"):
        request = signed("PagerDuty", body, gate.now(), headers=marks, secret=secret)
        gate.call(v2(request, cookies=["mark-6"]))
        logged = capsys.readouterr().out
        assert logged
        assert "mark-" not in logged
        assert request.headers.one("x-pagerduty-signature") not in logged
        assert SECRET not in logged


def test_problem_that_quotes_half_a_character_can_still_be_sent() -> None:
    described = problem(InvalidMessage([('payload["\ud800"]', "an int", '"\udfff"')]), "c-1")
    assert json.loads(described.body.encode("utf-8"))["problems"][0]["path"] == 'payload["\ud800"]'
