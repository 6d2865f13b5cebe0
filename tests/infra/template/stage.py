"""Where a function is exercised: its tables and bucket, what it finds there, and the events that it is called with.

State that a function would find is made by the library beforehand; only the handler's own calls are noted.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from millrace.definitions import Definitions
from millrace.engine.claim import claim
from millrace.engine.dictionary_review import publish
from millrace.engine.enqueue import enqueue_all
from millrace.engine.finish import RunFailure, ack, reject
from millrace.engine.queue import Queue, Runtime
from millrace.model.clock import system_clock
from millrace.model.dictionary import Dictionary
from millrace.model.keys import END, READY
from millrace.model.message import Draft, Entry, Place
from millrace.model.queue_state import CreditRequest
from millrace.model.tokens import Scope
from millrace.stores.dynamodb.admin_jobs import DynamoAdminJobs
from millrace.stores.dynamodb.tokens import DynamoTokens
from millrace.stores.interface import Applied
from tests.infra.template.cloud import Cloud

WORDS = "many words " * 100  #: packed, and small
LARGE = Random(1).randbytes(40_000).hex()  #: over 32 KB also when it is packed
DAY_MS = 86_400_000
LATE = 9_999_999_999_999

Handler = Callable[[Any, Any], Any]


class LambdaContext:
    def get_remaining_time_in_millis(self) -> int:
        return 60_000


@dataclass
class Exercise:
    """One function on its stage."""

    cloud: Cloud
    runtime: Runtime
    definitions: Definitions
    tenant: str
    tokens: DynamoTokens
    jobs: DynamoAdminJobs
    called: set[tuple[str, str]] = field(default_factory=set)  #: routes, as method and path

    def queue(self, name: str) -> Queue:
        return self.runtime.queue(self.tenant, self.definitions.queue(name).spec)

    def put(self, name: str, *payloads: Any) -> None:
        answers = enqueue_all(self.queue(name), [Draft(json.dumps({"payload": one}).encode()) for one in payloads])
        assert not [answer for answer in answers if isinstance(answer, Exception)]

    def publish(self, name: str) -> None:
        """The queue's bodies are packed with a dictionary from now on."""
        assert publish(self.queue(name), self.queue(name).state(fresh=True), Dictionary(b'{"payload": "many words'))

    def bury(self, name: str, *payloads: Any) -> list[str]:
        """Dead letters; their ids as the APIs write them."""
        ids = []
        for payload in payloads:
            self.put(name, payload)
            (held,) = claim(self.queue(name), owner="w").claims
            reject(self.queue(name), held.entry, held.message, RunFailure("E", "no"))
            found = self.runtime.store.read_dead_letters(self.tenant, name, "0", "9", 100)
            ids.append(found.items[-1].sk.replace("#", "."))
        return ids

    @property
    def past(self) -> Exercise:
        """The same exercise, five days ago."""
        runtime = Runtime(self.runtime.store, self.runtime.blobs, clock=lambda: system_clock() - 5 * DAY_MS)
        return replace(self, runtime=runtime)

    def entries(self, name: str) -> list[Entry]:
        (pk,) = self.queue(name).partitions()
        return list(self.runtime.store.read_lane(pk, READY, READY + END, 100).items)

    def put_back(self, entry: Entry) -> None:
        """As if the worker had died before its ack."""
        (outcome,) = self.runtime.store.put_entries([entry])
        assert isinstance(outcome, Applied)

    def end(self, name: str) -> None:
        """What a queue holds is done."""
        for held in claim(self.queue(name), owner="w", limit=100).claims:
            assert ack(self.queue(name), [held.entry], [None]) == [None]

    def leave_behind(self, name: str) -> None:
        """What dead processes leave: messages grown too old, entries without a message, credits not spent."""
        past = self.past
        past.put(name, 1, 2, 3)
        lost = [
            replace(one, nonce="lost", place=Place(one.place.pk, f"{one.place.sk}x"), expires_at=LATE)
            for one in past.entries(name)
        ]
        self.runtime.store.put_entries(lost)
        self.leave_unsent(name)
        self.runtime.store.take_credits(self.tenant, name, CreditRequest(9, 1_000, past.queue(name).now()))

    def leave_unsent(self, name: str) -> None:
        """An entry whose sender died before it wrote the message."""
        self.past.put(name, 1)
        found = self.past.entries(name)[-1]
        place = Place(found.place.pk, f"{found.place.sk}y")
        self.runtime.store.put_entries([replace(found, id="never-sent", place=place, expires_at=LATE)])

    def call(self, handler: Handler, event: Any) -> Any:
        with self.cloud.noting():
            return handler(event, LambdaContext())

    def http(
        self,
        handler: Handler,
        method: str,
        path: str,
        document: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        fails: int = 0,
    ) -> Any:
        """An answer's document. It must be a success, or fail just so."""
        path, _, query = path.partition("?")
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": f"{method} {path}",
            "rawPath": path,
            "rawQueryString": query,
            "headers": {"content-type": "application/json", **(headers or {})},
            "requestContext": {
                "stage": "$default",
                "http": {"method": method, "path": path, "sourceIp": "203.0.113.7"},
                "domainName": "hooks.example.com",
                "authorizer": {
                    "lambda": {
                        "token_id": "abcdefghijklmnop",
                        "name": "olga",
                        "scopes": " ".join(Scope),
                        "tenants": self.tenant,
                    }
                },
            },
            "isBase64Encoded": False,
            "body": document if isinstance(document, str) else json.dumps(document) if document is not None else "",
        }
        answer = self.call(handler, event)
        assert answer["statusCode"] == fails or (answer["statusCode"] < 300 and not fails), (method, path, answer)
        body = answer.get("body") or ""
        text = base64.b64decode(body).decode() if answer.get("isBase64Encoded") else body
        kind = next((v for k, v in answer.get("headers", {}).items() if k.lower() == "content-type"), "")
        return json.loads(text) if "json" in kind else text

    def visit(
        self,
        handler: Handler,
        method: str,
        path: str,
        document: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """A call of a route, remembered."""
        self.called.add((method, path.partition("?")[0]))
        return self.http(handler, method, path, document, headers)
