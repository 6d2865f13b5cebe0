"""A webhook of an encrypted queue: the ingress encrypts, and reads nothing that it or another has encrypted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from millrace.engine.claim import body_of, claim
from millrace.engine.finish import ack
from millrace.engine.queue import Runtime
from millrace.signatures import SecretSource
from millrace.stores.memory.keys import MemoryKeys
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.webhooks import Ingress, serve
from tests.conftest import Clock
from tests.worker.definitions import compiled

QUEUES = """
queue Events { message_type { payload: json }  drained_by: api  encrypt: "alias/shop-{tenant}" }
webhook Open { queue: Events  verify: none }
"""


class IngressKeys(MemoryKeys):
    """As the ingress' role has them."""

    def unwrap(self, key_id: str, wrapped: bytes, context: Mapping[str, str]) -> bytes:
        raise AssertionError("the ingress may not decrypt")


def post(ingress: Ingress, document: Any) -> tuple[int, Any]:
    event = {
        "version": "2.0",
        "rawPath": "/hook/Open",
        "rawQueryString": "",
        "headers": {"content-type": "application/json"},
        "requestContext": {"stage": "$default", "http": {"method": "POST", "path": "/hook/Open", "sourceIp": "::1"}},
        "body": json.dumps(document),
        "isBase64Encoded": False,
    }
    answer = serve(ingress, event).response.as_event()
    return answer["statusCode"], json.loads(answer["body"])


def test_a_delivery_is_encrypted_and_its_repeat_answered_without_reading(clock: Clock) -> None:
    store, keys = MemoryStore(clock), IngressKeys()
    definitions = compiled(QUEUES)

    def process() -> Ingress:
        """A fresh one each time, that knows no data key."""
        runtime = Runtime(store, MemoryBlobs(), clock=clock, keys=keys)
        return Ingress(definitions, runtime, SecretSource(clock, environ={}), default_tenant="acme")

    status, first = post(process(), {"say": "the-mark"})
    assert status == 202
    assert "the-mark" not in repr(store.messages)
    reader_keys = MemoryKeys()
    vars(reader_keys).update(vars(keys))
    queue = Runtime(store, MemoryBlobs(), clock=clock, keys=reader_keys).queue("acme", definitions.queue("Events").spec)
    (held,) = claim(queue, owner="w").claims
    assert json.loads(body_of(queue, held)) == {"say": "the-mark"}
    ack(queue, [held.entry], [b'"done"'])
    status, again = post(process(), {"say": "the-mark"})
    assert (status, again["duplicate"], again["message_id"]) == (200, True, first["message_id"])
    assert "result" not in again


def test_without_the_key_the_provider_is_told_to_come_back(clock: Clock) -> None:
    keys = IngressKeys()
    keys.disable("alias/shop-acme")
    runtime = Runtime(MemoryStore(clock), MemoryBlobs(), clock=clock, keys=keys)
    ingress = Ingress(compiled(QUEUES), runtime, SecretSource(clock, environ={}), default_tenant="acme")
    status, problem = post(ingress, {"n": 1})
    assert (status, problem["code"]) == (503, "key_unavailable")
    assert "alias/shop-acme" in problem["detail"]
