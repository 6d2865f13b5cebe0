"""A webhook that is accepted: what its sender is answered, what is stored, what a repeat gets."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from millrace.admission.admit import SOURCE_IP, typed_message
from millrace.engine.claim import claim
from millrace.engine.finish import RunFailure, ack, reject
from millrace.engine.status import MessageStatus, status
from millrace.model.errors import StoreUnavailable
from tests.webhooks.gate import ACME_SECRET, OLD_SECRET, Gate, signed, v1, v2, with_headers

INCIDENT = b'{"incident": {"id": "PGR0VU2", "title": "Head race low"},  "event": {"id": "e-1"}}'
GITHUB = {"x-github-event": "push", "x-github-delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958"}
PUSH = b'{"repository": {"full_name": "mill/race"}, "ref": "refs/heads/main"}'


def test_accepted_call_is_told_its_message_and_where_to_ask_for_it(gate: Gate) -> None:
    answer = gate.send("PagerDuty", INCIDENT)
    assert answer.status == 202
    message_id = answer.json["message_id"]
    assert answer.json == {"queued": True, "message_id": message_id, "idempotency_key": "PGR0VU2"}
    assert answer.headers["Location"] == f"/v1/queues/Incidents/messages/{message_id}"
    assert status(gate.queue("Incidents"), message_id).status is MessageStatus.READY


@pytest.mark.parametrize(
    ("endpoint", "body", "content_type"),
    [
        ("Generic", b'{ "a" : 1.0,\r\n "\xc3\xa9": "\\u00e9" }\n', "application/json"),
        ("Binary", bytes(range(256)) * 3, "application/octet-stream"),
        ("Binary", b"", "application/octet-stream"),
        ("Text", "Mühlrad 🙂".encode(), "text/plain; charset=utf-8"),
        ("Generic", b"From=%2B14155550100&Body=high+water", "application/x-www-form-urlencoded"),
    ],
)
def test_body_is_stored_byte_for_byte(gate: Gate, endpoint: str, body: bytes, content_type: str) -> None:
    answer = gate.send(endpoint, body, headers={"content-type": content_type})
    assert answer.status == 202, answer.text
    queue = gate.queue({"Generic": "Events", "Binary": "Blobs", "Text": "Texts"}[endpoint])
    message = status(queue, answer.json["message_id"]).message
    assert queue.runtime.bodies.read(message) == body
    assert message.content_type == content_type


def test_worker_sees_the_message_that_the_ingress_checked(gate: Gate) -> None:
    request = signed("GitHub", PUSH, gate.now(), headers={**GITHUB, "cookie": "a=b", "authorization": "Bearer t"})
    answer = gate.call(v2(request, cookies=["session=secret"]))
    queue = gate.queue("Repositories")
    message = status(queue, answer.json["message_id"]).message
    assert (message.source, message.headers[SOURCE_IP]) == ("webhook:GitHub", "203.0.113.7")
    typed = typed_message(gate.ingress.definitions.queue("Repositories").message_type, message, PUSH)
    assert typed["payload"]["repository"]["full_name"] == "mill/race"
    assert typed["headers"]["x-github-event"] == "push"
    assert set(typed["headers"]) == {"content-type", "x-github-event", "x-github-delivery"}


def test_typed_message_carries_address_and_time_of_the_call(gate: Gate) -> None:
    answer = gate.send("PagerDuty", INCIDENT)
    queue = gate.queue("Incidents")
    message = status(queue, answer.json["message_id"]).message
    typed = typed_message(gate.ingress.definitions.queue("Incidents").message_type, message, INCIDENT)
    assert (typed["source_ip"], typed["received_at"]) == ("203.0.113.7", "2027-01-15T08:00:00.000Z")


def test_repeat_while_queued_gets_202_and_the_first_id(gate: Gate, caplog: pytest.LogCaptureFixture) -> None:
    """Another body too: its provider can do nothing about it, but the log says so."""
    caplog.set_level(logging.INFO)
    first = gate.send("PagerDuty", INCIDENT)
    gate.send("PagerDuty", INCIDENT)
    assert not [line for line in caplog.records if vars(line).get("action") == "idempotency_conflict"]
    again = gate.send("PagerDuty", INCIDENT.replace(b"low", b"lower"))
    assert (again.status, again.json["message_id"]) == (202, first.json["message_id"])
    assert again.json["duplicate"] is True
    (said,) = [line for line in caplog.records if vars(line).get("action") == "idempotency_conflict"]
    assert vars(said)["message_id"] == first.json["message_id"]
    assert len(claim(gate.queue("Incidents"), owner="w", limit=10).claims) == 1


def test_repeat_once_done_gets_200_and_the_cached_result(gate: Gate) -> None:
    first = gate.send("PagerDuty", INCIDENT)
    queue = gate.queue("Incidents")
    (held,) = claim(queue, owner="w", limit=1).claims
    assert ack(queue, [held.entry], [b'{"incident": 7}']) == [None]
    again = gate.send("PagerDuty", INCIDENT)
    assert (again.status, again.json["message_id"]) == (200, first.json["message_id"])
    assert (again.json["queued"], again.json["status"], again.json["result"]) == (False, "done", {"incident": 7})


def test_repeat_of_a_result_that_is_no_json_gets_it_in_base64(gate: Gate) -> None:
    gate.send("PagerDuty", INCIDENT)
    queue = gate.queue("Incidents")
    (held,) = claim(queue, owner="w", limit=1).claims
    ack(queue, [held.entry], [b"\xff\xfe"])
    assert gate.send("PagerDuty", INCIDENT).json["result_base64"] == "//4="


def test_repeat_of_a_dead_letter_says_so_and_is_not_queued_again(gate: Gate) -> None:
    gate.send("PagerDuty", INCIDENT)
    queue = gate.queue("Incidents")
    (held,) = claim(queue, owner="w", limit=1).claims
    reject(queue, held.entry, held.message, RunFailure("ValueError", "no such incident"))
    again = gate.send("PagerDuty", INCIDENT)
    assert (again.status, again.json["queued"], again.json["status"]) == (200, False, "dead")


def test_a_captured_delivery_under_another_unsigned_id_is_a_repeat(gate: Gate) -> None:
    first = gate.send("GitHub", PUSH, headers=GITHUB)
    same = gate.send("GitHub", PUSH, headers={**GITHUB, "x-github-delivery": "made-up"})
    other = gate.send("GitHub", PUSH.replace(b"main", b"next"), headers=GITHUB)
    assert same.json["duplicate"] is True
    assert same.json["message_id"] == first.json["message_id"] != other.json["message_id"]
    assert first.json["idempotency_key"].startswith("github:sha256:")


def test_key_of_the_definition_falls_back_to_the_delivery_id(gate: Gate) -> None:
    assert gate.send("PagerDuty", b'{"event": {"id": "e-9"}}').json["idempotency_key"] == "pagerduty:id:e-9"


def test_filtered_call_is_acknowledged_recorded_and_never_queued(gate: Gate) -> None:
    answer = gate.send("GitHub", PUSH, headers={**GITHUB, "x-github-event": "ping"})
    assert (answer.status, answer.json["queued"], answer.json["status"]) == (202, False, "filtered")
    queue = gate.queue("Repositories")
    assert status(queue, answer.json["message_id"]).status is MessageStatus.FILTERED
    assert claim(queue, owner="w", limit=10).claims == []
    assert queue.state(fresh=True).depth == 0


def test_filtered_call_does_not_take_the_place_of_a_later_one_with_its_key(gate: Gate) -> None:
    headers = {**GITHUB, "x-github-event": "ping"}
    left_out = gate.send("GitHub", PUSH, headers=headers)
    assert gate.send("GitHub", PUSH, headers=headers).json["message_id"] == left_out.json["message_id"]
    passed = gate.send("GitHub", PUSH, headers=GITHUB)
    assert (passed.status, passed.json["queued"]) == (202, True)
    assert passed.json["idempotency_key"] == left_out.json["idempotency_key"]
    assert status(gate.queue("Repositories"), left_out.json["message_id"]).status is MessageStatus.FILTERED
    assert status(gate.queue("Repositories"), passed.json["message_id"]).status is MessageStatus.READY
    assert len(claim(gate.queue("Repositories"), owner="w", limit=10).claims) == 1


def test_key_without_a_value_keeps_its_message_in_order_with_its_like(gate: Gate) -> None:
    for number in range(2):
        body = json.dumps({"number": number}).encode()
        assert gate.send("GitHub", body, headers={"x-github-event": "push"}).status == 202
    (held,) = claim(gate.queue("Repositories"), owner="w", limit=10).claims
    assert held.entry.key == "(none)"


@pytest.mark.parametrize("name", ["n" * 5_000, "line\nbreak", "half \\ud800 pair", "\x7f"])
def test_odd_key_of_a_message_is_no_reason_to_lose_it(gate: Gate, name: str) -> None:
    text = json.dumps(name).replace("\\\\u", "\\u")
    body = f'{{"repository": {{"full_name": {text}}}}}'.encode()
    assert gate.send("GitHub", body, headers={"x-github-event": "push"}).status == 202
    incident = f'{{"incident": {{"id": {text}}}}}'.encode()
    first, again = gate.send("PagerDuty", incident), gate.send("PagerDuty", incident)
    assert (first.status, again.json["message_id"]) == (202, first.json["message_id"])


def test_tenant_in_the_path_has_queues_of_its_own(gate: Gate) -> None:
    mine = gate.send("PagerDuty", INCIDENT)
    theirs = gate.send("PagerDuty", INCIDENT, path="/hook/acme/PagerDuty", secret=ACME_SECRET)
    assert mine.json["message_id"] != theirs.json["message_id"]
    assert status(gate.queue("Incidents", "acme"), theirs.json["message_id"]).status is MessageStatus.READY
    assert len(claim(gate.queue("Incidents"), owner="w", limit=10).claims) == 1


def test_rest_event_is_read_as_well(gate: Gate) -> None:
    answer = gate.call(v1(signed("PagerDuty", INCIDENT, gate.now())))
    assert (answer.status, answer.json["idempotency_key"]) == (202, "PGR0VU2")


@pytest.mark.parametrize(("endpoint", "expected", "has_body"), [("Zoom", 200, True), ("Twilio", 204, False)])
def test_success_code_is_the_one_that_the_provider_wants(
    gate: Gate, endpoint: str, expected: int, has_body: bool
) -> None:
    answer = gate.send(endpoint, b'{"event": "meeting.started", "payload": {}}')
    assert (answer.status, bool(answer.text)) == (expected, has_body)
    assert "Location" in answer.headers


def test_older_secret_still_counts_and_is_named(gate: Gate, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate.send("PagerDuty", INCIDENT, secret=OLD_SECRET).status == 202
    counted = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "SecretMatched" in line]
    assert [line["secret"] for line in counted] == ["env:HOOK_SECRET_OLD"]


def test_correlation_id_of_the_caller_follows_the_message(gate: Gate) -> None:
    request = with_headers(signed("PagerDuty", INCIDENT, gate.now()), {"x-correlation-id": " trace-7 "})
    answer = gate.call(v2(request))
    assert answer.headers["X-Correlation-Id"] == "trace-7"
    assert status(gate.queue("Incidents"), answer.json["message_id"]).message.correlation_id == "trace-7"


def test_correlation_id_that_could_break_a_log_is_replaced(gate: Gate) -> None:
    request = with_headers(signed("PagerDuty", INCIDENT, gate.now()), {"x-correlation-id": 'x"}\n{"level":"INFO'})
    assert len(gate.call(v2(request)).headers["X-Correlation-Id"]) == 22


def test_commit_without_an_answer_is_our_fault_and_may_be_repeated(gate: Gate, monkeypatch: Any) -> None:
    def silent(_entries: object) -> list[Any]:
        raise StoreUnavailable("DynamoDB did not answer put_item within 8 s.")

    with monkeypatch.context() as patch:
        patch.setattr(type(gate.ingress.runtime.store), "put_entries", lambda _self, entries: silent(entries))
        answer = gate.send("PagerDuty", INCIDENT)
    assert (answer.status, answer.json["code"], answer.headers["Retry-After"]) == (503, "store_unavailable", "2")
    assert gate.send("PagerDuty", INCIDENT).status == 202
