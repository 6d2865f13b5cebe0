"""What each function does in its life, end to end through its handler: every route, every kind of event and target.

State that a function would find is made by the library beforehand; only the handler's own calls are noted.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from millrace.accounting import Take
from millrace.admin.jobs import JobKind
from millrace.claim import claim
from millrace.clock import system_clock
from millrace.dead_letters import replay
from millrace.definitions import Definitions
from millrace.enqueue import enqueue, enqueue_all
from millrace.finish import Failure, ack, reject
from millrace.lanes import END, READY
from millrace.message import Draft, Entry, Place
from millrace.queue import Queue, Runtime
from millrace.signatures import Secret, preset
from millrace.signatures.signing import sign
from millrace.store import Applied
from millrace.stores.dynamodb.jobs import DynamoJobs
from millrace.stores.dynamodb.tokens import DynamoTokens
from millrace.tokens import Scope, issue
from millrace.work import Context, command
from tests.template.cloud import SECRET, Cloud

LARGE = Random(1).randbytes(40_000).hex()  #: over 32 KB also when it is packed
DAY_MS = 86_400_000
LATE = 9_999_999_999_999

Handler = Callable[[Any, Any], Any]


@command("Proof.Work")
def work(given: dict[str, Any], _context: Context) -> dict[str, Any]:
    return {"seen": len(given)}


@command("Proof.Fail")
def fail(_given: dict[str, Any], _context: Context) -> None:
    raise ValueError("as it was told")


class LambdaContext:
    def get_remaining_time_in_millis(self) -> int:
        return 60_000


@dataclass
class Play:
    """One function on its stage."""

    cloud: Cloud
    runtime: Runtime
    definitions: Definitions
    tenant: str
    tokens: DynamoTokens
    jobs: DynamoJobs
    called: set[tuple[str, str]] = field(default_factory=set)  #: routes, as method and path

    def queue(self, name: str) -> Queue:
        return self.runtime.queue(self.tenant, self.definitions.queue(name).spec)

    def put(self, name: str, *payloads: Any) -> None:
        answers = enqueue_all(self.queue(name), [Draft(json.dumps({"payload": one}).encode()) for one in payloads])
        assert not [answer for answer in answers if isinstance(answer, Exception)]

    def bury(self, name: str, *payloads: Any) -> list[str]:
        """Dead letters; their ids as the APIs write them."""
        ids = []
        for payload in payloads:
            self.put(name, payload)
            (held,) = claim(self.queue(name), owner="w").claims
            reject(self.queue(name), held.entry, held.message, Failure("E", "no"))
            found = self.runtime.store.read_dead_letters(self.tenant, name, "0", "9", 100)
            ids.append(found.items[-1].sk.replace("#", "."))
        return ids

    @property
    def past(self) -> Play:
        """The same play, five days ago."""
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
        self.runtime.store.take_credits(self.tenant, name, Take(9, 1_000, past.queue(name).now()))

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


def play_ingress(play: Play, handler: Handler) -> None:
    """Accepted, large, repeated, repeated after its window and its end, filtered, full, badly signed."""

    def post(door: str, delivery: str, payload: Any = 1, *, secret: str = SECRET, fails: int = 0) -> None:
        body = json.dumps(payload)
        signed = sign(preset("github"), [Secret("s", secret)], body.encode(), system_clock())
        headers = {**signed, "x-github-event": "push", "x-github-delivery": delivery}
        play.http(handler, "POST", f"/hook/{play.tenant}/{door}", body, headers, fails=fails)

    post("Hook", "a")
    post("Hook", "a")
    post("Hook", "b", LARGE)
    post("Hook", "c", secret="not-it", fails=401)
    post("Filtered", "a", {"wanted": False})
    post("Filtered", "b", {"wanted": True})
    post("Full", "a")
    post("Full", "b", fails=503)
    post("Often", "a")
    play.end("Brief")
    time.sleep(1.1)  # past the queue's idempotency window, by the function's own clock
    post("Often", "a")
    play.http(handler, "GET", f"/hook/{play.tenant}/Hook", fails=405)


def play_worker(play: Play, handler: Handler) -> None:
    """One and many, of every target: done, retried, dead; too old, abandoned, swept, summoned."""
    for name, payloads in {
        "Jobs": (1,),
        "Called": (LARGE,),
        "Posted": (1,),
        "Ordered": (1, 2),
        "Fragile": range(12),
    }.items():
        play.put(name, *payloads)
        play.call(handler, _stream(play, name))
    play.put("Forwarded", LARGE)
    (entry,) = play.entries("Forwarded")
    play.call(handler, _stream(play, "Forwarded"))
    play.put_back(entry)
    play.call(handler, _stream(play, "Forwarded"))
    play.end("Brief")
    time.sleep(1.1)  # past the other queue's idempotency window, by the function's own clock
    play.put_back(entry)
    play.call(handler, _stream(play, "Forwarded"))
    play.leave_behind("Pulled")
    play.put("Jobs", 1, 2, 3)
    for _ in range(2):  # the first takes out what is left behind, the second counts what is there
        play.call(handler, {"sweep": True})
    play.call(handler, _stream(play, "Jobs", "Forwarded"))


def _stream(play: Play, *names: str) -> dict[str, Any]:
    keys = [{"pk": {"S": play.queue(name).partitions()[0]}, "sk": {"S": "R#x"}} for name in names]
    return {"Records": [{"eventName": "INSERT", "dynamodb": {"Keys": key}} for key in keys]}


def play_authoriser(play: Play, handler: Handler) -> None:
    _, written = issue(play.tokens, name="t", scopes=list(Scope), tenants=[play.tenant], clock=system_clock)
    for token in (written, "mrt_nonsense", ""):
        answer = play.call(handler, {"headers": {"authorization": f"Bearer {token}"}, "routeKey": "ANY /v1/{proxy+}"})
        assert answer["isAuthorized"] == (token == written)


def play_consumer(play: Play, handler: Handler) -> set[tuple[str, str]]:
    """Every route of the pull API, singly and in batches."""
    called: set[tuple[str, str]] = set()
    base = "/v1/queues/Pulled"

    def call(method: str, path: str, document: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        called.add((method, path.partition("?")[0]))
        return play.http(handler, method, path, document, headers)

    def payload(value: Any) -> dict[str, Any]:
        return {"body": {"payload": value}}

    def take(most: int = 1) -> list[Any]:
        return list(call("POST", f"{base}/dequeue", {"max": most, "with_state": True, "wait_ms": 100})["messages"])

    first = call("POST", f"{base}/messages", {**payload(1), "idempotency_key": "a"})["message_id"]
    call("POST", f"{base}/messages", {**payload(1), "idempotency_key": "a"})
    call("POST", f"{base}/messages/raw", json.dumps({"payload": LARGE}))
    call("POST", "/v1/queues/Picky/messages", payload({"wanted": False}))
    enqueue(play.past.queue("Brief"), Draft(b'{"payload": 1}', idempotency_key="old"))
    play.past.end("Brief")
    call("POST", "/v1/queues/Brief/messages", {**payload(1), "idempotency_key": "old"})
    for _ in range(2):
        lines = [{**payload(number), "idempotency_key": f"k{number}"} for number in range(8)]
        call("POST", f"{base}/messages/batch", {"messages": lines})
    for path in ("", "/messages", "/claims", f"/messages/{first}", f"/messages/{first}/body", "/messages?lane=waiting"):
        call("GET", f"{base}{path}")
    call("GET", "/v1/queues")
    for verb in ("pause", "resume"):
        call("POST", f"{base}/{verb}")
    (held,) = take()
    call("GET", f"{base}/state", headers={"x-millrace-claim": held["claim"]})
    call("PUT", f"{base}/state", {"claim": held["claim"], "state": {"n": 1}, "version": 0})
    call("POST", f"{base}/extend", {"claim": held["claim"]})
    call("POST", f"{base}/release", {"claim": held["claim"]})
    (held,) = take()
    call("POST", f"{base}/ack", {"claim": held["claim"], "result": 1})
    call("POST", f"{base}/ack", {"claim": held["claim"], "result": 1})
    call("GET", f"{base}/messages/{held['message_id']}")
    (held,) = take()
    call("POST", f"{base}/nack", {"claim": held["claim"], "delay_ms": 0, "error": "no"})
    many = take(8)
    for verb in ("extend", "release"):
        call("POST", f"{base}/{verb}/batch", {"items": [{"claim": one["claim"]} for one in many]})
    many = take(8)
    claims = [{"claim": one["claim"]} for one in many]
    call("POST", f"{base}/nack/batch", {"items": [{**claims[0], "reject": True}, {**claims[1], "delay_ms": 0}]})
    call("POST", f"{base}/ack/batch", {"items": [{**one, "result": 1} for one in claims[2:]]})
    play.bury("Pulled", LARGE)
    letters = call("GET", f"{base}/dead-letters")["dead_letters"]
    for letter in letters:
        one = f"{base}/dead-letters/{letter['id']}"
        call("GET", one)
        call("POST", f"{one}/replay")
        call("DELETE", one)
    call("GET", "/v1/openapi.json")
    return called


def play_admin(play: Play, handler: Handler) -> set[tuple[str, str]]:
    """Every route of the admin API, its jobs, and the schedule that goes on with them."""
    called: set[tuple[str, str]] = set()
    base = "/admin/queues/Pulled"

    def call(method: str, path: str, document: Any = None, headers: Mapping[str, str] | None = None) -> Any:
        called.add((method, path.partition("?")[0]))
        return play.http(handler, method, path, document, headers)

    letters = play.bury("Pulled", 1, 2, 3, LARGE)
    play.put("Pulled", 1, 2, 3, 4, LARGE)
    (held,) = claim(play.queue("Pulled"), owner="w").claims
    for path in ("/whoami", "/queues", "/jobs", "/audit", f"/search?q={held.entry.id}", f"/search?q={letters[0]}"):
        call("GET", f"/admin{path}")
    call("GET", f"/admin/search?q={held.entry.correlation_id}")
    for path in ("", "/messages", "/claims", "/dead-letters", "/jobs"):
        call("GET", f"{base}{path}")
    for path in (f"/messages/{held.entry.id}", f"/dead-letters/{letters[-1]}"):
        call("GET", f"{base}{path}")
        call("GET", f"{base}{path}/body")
    for verb in (
        "pause",
        "resume",
        f"messages/{held.entry.id}/release",
        f"dead-letters/{letters[0]}/replay",
        "dry-run",
    ):
        call("POST", f"{base}/{verb}", {} if verb == "dry-run" else None)
    call("DELETE", f"{base}/dead-letters/{letters[0]}")
    _play_replays(play, call)
    _play_jobs(play, handler, call)
    call("GET", "/console")
    return called


def _play_replays(play: Play, call: Callable[..., Any]) -> None:
    """A letter replayed under one key, another, the first again; and under one whose message was done long ago."""
    (letter,) = play.bury("Brief", 1)
    past = play.past
    found = past.runtime.store.get_dead_letter(play.tenant, "Brief", letter.replace(".", "#"))
    assert found is not None
    replay(past.queue("Brief"), found, "one:old")
    past.end("Brief")
    for key in ("a", "b", "a", "old"):
        call("POST", f"/admin/queues/Brief/dead-letters/{letter}/replay", headers={"idempotency-key": key})


def _play_jobs(play: Play, handler: Handler, call: Callable[..., Any]) -> None:
    """Each kind: cancelled, resumed, run to its end; one whose runner died is found by the schedule."""
    base = "/admin/queues/Pulled/jobs"
    for kind in JobKind:
        play.bury("Pulled", 1, LARGE)
        job = call("POST", base, {"kind": kind, "confirm": "Pulled"})["job_id"]
        event = {"job": {"tenant": play.tenant, "queue": "Pulled", "id": job}}
        call("POST", f"{base}/{job}/cancel")
        play.call(handler, event)
        call("POST", f"{base}/{job}/resume")
        play.call(handler, event)
        assert call("GET", f"{base}/{job}")["state"] == "done"
    play.bury("Pulled", 1)
    job = call("POST", base, {"kind": "replay"})["job_id"]
    kept = play.jobs.get(play.tenant, "Pulled", job)
    assert kept is not None
    assert play.jobs.take(replace(kept, lease_token="dead", lease_until=1), system_clock())
    assert play.call(handler, {"jobs": True})["ran"] == [job]
