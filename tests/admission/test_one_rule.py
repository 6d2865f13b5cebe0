"""One rule for what comes in: every case has one answer, whichever of the four ways a message takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from millrace.definitions import Definitions
from millrace.definitions.language.compiler import compile_files
from millrace.engine.claim import claim
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import MessageStatus, status
from millrace.handlers.controls import Reject
from millrace.http.routes import Api
from millrace.model.errors import InvalidRequest
from millrace.pull.api import ROUTES
from millrace.pull.dispatcher import SHARED, Dispatcher
from millrace.pull.service import PullService
from millrace.signatures import SecretSource, WebhookRequest
from millrace.spark.row_mapping import Shape, shape_batches
from millrace.spark.rows import COPIES, READ, unpack
from millrace.spark.writer import Writer, Writing
from millrace.stores.memory.admin import MemoryTokens
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from millrace.webhooks import Ingress, serve
from millrace.worker.targets.chain import QueueDelivery
from millrace.worker.targets.request import TargetRequest
from tests.conftest import Clock
from tests.pull.calling import Caller
from tests.webhooks.gate import v2

TENANT = "acme"
TEXT = b"""
app Rule {
  queue Orders {
    message_type { payload: { id: string  amount: int  account?: string  kind?: string } }
    ordering: per_key(payload.account)
    filter: payload.kind != "noise"
    max_body_bytes: 4000
    fed_by: api  drained_by: api
  }
  queue Once {
    message_type { payload: { id?: string } }
    idempotency { key: payload.id }
    fed_by: api  drained_by: api
  }
  queue Anything { max_body_bytes: 4000  fed_by: api  drained_by: api }
  queue Blobs { message_type { payload: bytes }  fed_by: api  drained_by: api }
  queue Loose { message_type { payload: json }  fed_by: api  drained_by: api }

  webhook OrdersHook { queue: Orders  verify: none }
  webhook OnceHook { queue: Once  verify: none }
  webhook AnythingHook { queue: Anything  verify: none }
  webhook BlobsHook { queue: Blobs  verify: none }
  webhook LooseHook { queue: Loose  verify: none }
}
"""
_COMPILED = compile_files([("rule.millrace", TEXT)])
assert _COMPILED.definitions is not None, _COMPILED.findings
DEFINITIONS = Definitions(_COMPILED.definitions)


@dataclass(frozen=True)
class Sent:
    """What somebody sends: a payload, or bytes that are the whole body, and the keys that a caller may name."""

    queue: str
    payload: Any = None
    raw: bytes | None = None
    more: dict[str, Any] = field(default_factory=dict)  #: fields of the message beside the payload
    key: str | None = None
    idempotency_key: str | None = None

    @property
    def message(self) -> dict[str, Any]:
        return {"payload": self.payload, **self.more}


@dataclass(frozen=True)
class Answer:
    """What came of it, in words that all four ways share."""

    word: str  #: accepted, filtered, or the code of the error
    detail: str = ""
    key: str = ""
    idempotency_key: str = ""


class World:
    """One store, and the four ways into its queues."""

    def __init__(self) -> None:
        self.runtime = Runtime(MemoryStore(), MemoryBlobs(), clock=Clock())

    def queue(self, name: str) -> Queue:
        return self.runtime.queue(TENANT, DEFINITIONS.queue(name).spec)

    def stored(self, sent: Sent, message_id: str) -> Answer:
        queue = self.queue(sent.queue)
        found = status(queue, message_id)
        if found.status is MessageStatus.FILTERED:
            assert claim(queue, owner="w", limit=1).claims == []
            return Answer("filtered", idempotency_key=found.message.idempotency_key)
        (held,) = claim(queue, owner="w", limit=2).claims
        assert held.entry.id == message_id
        return Answer("accepted", key=held.entry.key, idempotency_key=found.message.idempotency_key)

    def webhook(self, sent: Sent) -> Answer:
        ingress = Ingress(DEFINITIONS, self.runtime, SecretSource(self.runtime.clock, environ={}), TENANT)
        body = sent.raw if sent.raw is not None else json.dumps(sent.payload).encode()
        kind = "application/octet-stream" if sent.raw is not None else "application/json"
        url = f"https://hooks.example.com/hook/{sent.queue}Hook"
        served = serve(ingress, v2(WebhookRequest.build("POST", url, {"content-type": kind}, body)))
        return self._of_http(sent, served.response.status, json.loads(served.response.body))

    def post(self, sent: Sent) -> Answer:
        service = PullService(self.runtime, DEFINITIONS, MemoryTokens(), Dispatcher(schedule=SHARED))
        call = Caller(Api(service, ROUTES), TENANT)
        named = {"key": sent.key, "idempotency_key": sent.idempotency_key}
        path = f"/v1/queues/{sent.queue}/messages"
        if sent.raw is not None:
            got = call("POST", f"{path}/raw", content=sent.raw, headers={"idempotency-key": "request-1"})
        else:
            document = {"body": sent.message, **{name: value for name, value in named.items() if value is not None}}
            got = call("POST", path, document, headers={"idempotency-key": "request-1"})
        return self._of_http(sent, got.status, got.json)

    def chain(self, sent: Sent) -> Answer:
        """Only what a rendered mapping can be: an object of JSON, and no key that anybody names."""
        source: Any = SimpleNamespace(
            message=SimpleNamespace(id="m-1", nonce="n-1", queue="Source", headers={}),
            correlation_id="c-1",
            queue=self.queue("Anything"),
        )
        try:
            given = QueueDelivery(DEFINITIONS.queue)(source, TargetRequest(sent.queue, sent.message, 0, False))
        except Reject as refusal:
            cause = refusal.__cause__
            assert isinstance(cause, InvalidRequest)
            return Answer(cause.code, str(cause))
        return self.stored(sent, given["message_id"])

    def row(self, sent: Sent) -> Answer:
        assert _COMPILED.definitions is not None
        shape = Shape(json.dumps(_COMPILED.definitions).encode(), sent.queue, TENANT)
        body = sent.raw if sent.raw is not None else json.dumps(sent.message).encode()
        given = dict.fromkeys(READ.names) | {
            "path": "file",
            "body": body,
            "key": sent.key,
            "idempotency_key": sent.idempotency_key,
            "content_type": "application/octet-stream" if sent.raw is not None else None,
        }
        (shaped,) = shape_batches(shape, [pa.RecordBatch.from_pylist([given], schema=READ.schema)])
        copies = pa.array([[]], COPIES)
        whole = pa.RecordBatch.from_arrays([*shaped.columns, copies], names=[*shaped.schema.names, "copies"])
        ((line,),) = Writer(self.runtime, self.queue(sent.queue).spec, Writing("run-1")).write(unpack(whole, "run-1"))
        if line.outcome == "rejected":
            code, _, detail = line.reason.partition(": ")
            return Answer(code, detail)
        assert line.outcome == ("filtered" if line.row.filtered else "inserted")
        return self.stored(sent, line.row.id)

    def _of_http(self, sent: Sent, code: int, document: dict[str, Any]) -> Answer:
        if code >= 400:
            assert code == {"invalid_message": 422, "body_too_large": 413, "too_many_values": 413}.get(
                document["code"], 400
            )
            return Answer(document["code"], document["detail"])
        return self.stored(sent, document["message_id"])


WAYS: dict[str, Callable[[World, Sent], Answer]] = {
    "webhook": World.webhook,
    "post": World.post,
    "chain": World.chain,
    "row": World.row,
}
#: Whose keys nobody names outright: a webhook's come from its provider, a chain's from the definition.
NAMES_NO_KEYS = ("webhook", "chain")
ORDER = {"id": "o-1", "amount": 3, "account": "a-7", "kind": "sale"}
LONG, ODD = "x" * 300, "line\nbreak"
BINARY = b"\x00\xff\xfe not json"


def hashed(text: str) -> str:
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def fallback(way: str, sent: Sent) -> str:
    """The idempotency key of a message that neither its sender nor its definition gives one."""
    body = sent.raw if sent.raw is not None else json.dumps(sent.payload if way == "webhook" else sent.message).encode()
    digest = sha256(body).hexdigest()
    return {"webhook": f"unsigned:sha256:{digest}", "post": "request-1", "chain": "", "row": f"content:{digest}"}[way]


@dataclass(frozen=True)
class Case:
    """Something that is sent, and the one answer."""

    sent: Sent
    word: str
    detail: tuple[str, ...] = ()  #: what the refusal must say
    key: str = ""
    idempotency_key: str | None = None  #: None: the way's own fallback
    without: tuple[str, ...] = ()  #: ways that cannot send this at all


def orders(**payload: Any) -> Sent:
    return Sent("Orders", {name: value for name, value in {**ORDER, **payload}.items() if value is not None})


CASES = {
    "ok": Case(orders(), "accepted", key="a-7"),
    "wrong type": Case(orders(amount="3"), "invalid_message", ("payload.amount: expected an int, found a string",)),
    "several problems": Case(orders(amount=1.5, id=7), "invalid_message", ("payload.amount", "payload.id")),
    "missing field": Case(orders(amount=None), "invalid_message", ("payload.amount: expected an int, found nothing",)),
    "no object": Case(Sent("Orders", [1]), "invalid_message", ("payload: expected an object",)),
    "extra field of a provider": Case(orders(added_in_2027=True), "accepted", key="a-7"),
    "extra field of the message": Case(
        Sent("Orders", ORDER, more={"extra": 1}), "invalid_message", ("extra",), without=("webhook",)
    ),
    "long key": Case(orders(account=LONG), "accepted", key=hashed(LONG)),
    "odd key": Case(orders(account=ODD), "accepted", key=hashed(ODD)),
    "missing key": Case(orders(account=None), "accepted", key="(none)"),
    "empty key": Case(orders(account=""), "accepted", key="(none)"),
    "caller's key": Case(
        Sent("Orders", ORDER, key="mine"), "accepted", key="mine", without=NAMES_NO_KEYS
    ),
    "caller's key too long": Case(
        Sent("Orders", ORDER, key=LONG), "invalid_field", ("key", "128"), without=NAMES_NO_KEYS
    ),
    "caller's key odd": Case(Sent("Orders", ORDER, key=ODD), "invalid_field", ("key",), without=NAMES_NO_KEYS),
    "filtered": Case(orders(kind="noise"), "filtered"),
    "filter that fails": Case(orders(kind=None), "accepted", key="a-7"),
    "filtered, but of the wrong type": Case(orders(kind="noise", amount="3"), "invalid_message", ("payload.amount",)),
    "too large": Case(orders(id="x" * 4_000), "body_too_large", ("4000",)),
    "too many values": Case(Sent("Loose", [[]] * 200_000), "too_many_values", ("400000",)),
    "no message_type": Case(Sent("Anything", {"a": [1, None]}), "accepted"),
    "no message_type, bytes": Case(Sent("Anything", raw=BINARY), "accepted", without=("chain",)),
    "no message_type, too large": Case(Sent("Anything", "x" * 4_000), "body_too_large"),
    "payload: bytes": Case(Sent("Blobs", raw=BINARY), "accepted", without=("chain",)),
    "payload: json": Case(Sent("Loose", {"any": ["thing"]}), "accepted"),
    "payload: json, not JSON": Case(Sent("Loose", raw=BINARY), "invalid_message", ("JSON",), without=("chain",)),
    "idempotency by expression": Case(Sent("Once", {"id": "e-1"}), "accepted", idempotency_key="e-1"),
    "idempotency by expression, long": Case(
        Sent("Once", {"id": "x" * 600}), "accepted", idempotency_key=hashed("x" * 600)
    ),
    "idempotency by expression, odd": Case(Sent("Once", {"id": ODD}), "accepted", idempotency_key=hashed(ODD)),
    "idempotency by expression, missing": Case(Sent("Once", {}), "accepted"),
    "idempotency by caller": Case(
        Sent("Once", {}, idempotency_key="mine"), "accepted", idempotency_key="mine", without=NAMES_NO_KEYS
    ),
    "idempotency by both": Case(
        Sent("Once", {"id": "e-1"}, idempotency_key="mine"), "accepted", idempotency_key="mine", without=NAMES_NO_KEYS
    ),
    "idempotency by caller, too long": Case(
        Sent("Once", {}, idempotency_key="x" * 600), "invalid_field", ("idempotency_key", "512"), without=NAMES_NO_KEYS
    ),
}  # fmt: skip
TABLE = [
    pytest.param(way, case, id=f"{name}-{way}")
    for name, case in CASES.items()
    for way in WAYS
    if way not in case.without
]


@pytest.mark.parametrize(("way", "case"), TABLE)
def test_every_way_gives_the_one_answer(way: str, case: Case) -> None:
    answer = WAYS[way](World(), case.sent)
    assert (answer.word, answer.key) == (case.word, case.key), answer
    assert all(part in answer.detail for part in case.detail), answer.detail
    if case.word in ("accepted", "filtered"):
        expected = fallback(way, case.sent) if case.idempotency_key is None else case.idempotency_key
        assert answer.idempotency_key == expected


class Ids(World):
    """Says which message it was, and claims none."""

    def stored(self, sent: Sent, message_id: str) -> Answer:
        return Answer(status(self.queue(sent.queue), message_id).status, message_id)


@pytest.mark.parametrize("way", WAYS)
def test_a_filtered_message_sent_again_has_one_record(way: str) -> None:
    world = Ids()
    first, again = (WAYS[way](world, orders(kind="noise")) for _ in range(2))
    assert first == again
    assert first.word == MessageStatus.FILTERED


def test_a_key_of_the_definition_is_one_message_by_whichever_ways_it_comes() -> None:
    world, sent = Ids(), Sent("Once", {"id": "e-1"})
    answers = {WAYS[way](world, sent) for way in ("row", "post", "chain")}
    assert len(answers) == 1
    (hooked,) = {WAYS["webhook"](world, sent) for _ in range(2)}
    assert hooked not in answers, "what strangers send to a webhook hides no message of a caller"


def test_messages_without_a_key_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    for way in WAYS.values():
        caplog.clear()
        way(World(), orders(account=None))
        (record,) = [record for record in caplog.records if record.name == "millrace.admission"]
        assert {"action": "key_missing", "queue": "Orders", "messages": 1}.items() <= vars(record).items()
