"""A message as its definition sees it, whoever brought it."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.admission.admit import SOURCE_IP, typed_draft, typed_message
from millrace.definitions.message_type import RecordType, read_message_type
from millrace.model.errors import InvalidMessage
from millrace.model.message import Draft
from tests.conftest import NOON
from tests.stores.samples import Samples

OCTETS = "application/octet-stream"


def record(**fields: Any) -> RecordType:
    return read_message_type({"record": fields})


def from_webhook(body: bytes, content_type: str = "application/json") -> Draft:
    headers = {"x-event": "push", SOURCE_IP: "192.0.2.7"}
    return Draft(body, content_type, headers, source="webhook:Hook")


def test_a_webhooks_body_is_the_payload_beside_what_the_ingress_saw() -> None:
    kind = record(payload="json", headers={"map": ["string", "string"]}, source_ip="string", received_at="time")
    assert typed_draft(kind, from_webhook(b"[1]"), NOON) == {
        "payload": [1],
        "headers": {"x-event": "push"},
        "source_ip": "192.0.2.7",
        "received_at": "2027-01-15T08:00:00.000Z",
    }


@pytest.mark.parametrize(
    ("kind", "body", "content_type", "payload"),
    [
        ("bytes", b"\xff", OCTETS, "/w=="),
        ("string", b"text", OCTETS, "text"),
        ("json", b"a=1&b=2&b=3", "application/x-www-form-urlencoded", {"a": "1", "b": ["2", "3"]}),
    ],
)
def test_a_payload_is_read_as_its_type_says(kind: str, body: bytes, content_type: str, payload: Any) -> None:
    assert typed_draft(record(payload=kind), from_webhook(body, content_type), NOON) == {"payload": payload}


def test_everybody_elses_body_is_the_whole_message() -> None:
    assert typed_draft(record(n="int"), Draft(b'{"n": 1}'), NOON) == {"n": 1}
    assert typed_draft(record(payload="bytes"), Draft(b'{"payload": "aGk="}'), NOON) == {"payload": "aGk="}
    with pytest.raises(InvalidMessage, match="no object"):
        typed_draft(record(n="int"), Draft(b"[1]"), NOON)


def test_bytes_that_are_not_called_json_are_a_payload_of_bytes() -> None:
    assert typed_draft(record(payload="bytes"), Draft(b"\xff", OCTETS), NOON) == {"payload": "/w=="}
    with pytest.raises(InvalidMessage, match="JSON"):
        typed_draft(record(payload="json"), Draft(b"\xff", OCTETS), NOON)


def test_the_worker_sees_what_was_admitted() -> None:
    draft = from_webhook(b'{"a": 1}')
    message = Samples("acme").message(headers=draft.headers, source=draft.source)
    assert typed_message(record(payload="json"), message, draft.body) == {"payload": {"a": 1}}
    with pytest.raises(InvalidMessage, match="message_type"):
        typed_message(None, message, draft.body)
