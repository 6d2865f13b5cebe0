"""What each function does in its life, end to end through its handler: every route, every kind of event and target."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any
from unittest.mock import patch

from millrace import Batch, Context, command
from millrace.admin.jobs import QUEUE_JOBS
from millrace.engine import dictionary_review
from millrace.engine.claim import claim
from millrace.engine.dead_letters import replay
from millrace.engine.enqueue import enqueue
from millrace.handlers.controls import Unavailable
from millrace.http.fields import rfc3339
from millrace.model.clock import system_clock
from millrace.model.message import Draft
from millrace.model.queue_state import BreakerState, Slot
from millrace.model.tokens import Scope, issue
from millrace.signatures import Secret, preset
from millrace.signatures.signing import sign
from millrace.stores.dynamodb.items import MESSAGE, message_key
from millrace.stores.dynamodb.store import DynamoStore
from millrace.worker import samples, sweeper
from tests.infra.template.cloud import SECRET
from tests.infra.template.stage import LARGE, WORDS, Exercise, Handler

PULLED, ADMIN = "/v1/queues/Pulled", "/admin/queues/Pulled"

Call = Callable[..., Any]
#: In a payload: the command acks together with a write of its app's own.
STAGED = "staged"


def unseen_in_time() -> Any:
    """A large repeat that no look finds, as where two senders come at once: it takes its own body back."""
    return patch("millrace.engine.enqueue.LOOK_FROM", 10**9)


@command("Proof.Work")
def work(given: dict[str, Any], context: Context) -> dict[str, Any]:
    if STAGED in str(given):
        context.transact([{"Put": {"TableName": "an-apps-own", "Item": {"pk": {"S": "Q#not-ours"}}}}])
    return {"seen": len(given)}


@command("Proof.Batch", batch=10)
def work_on_all(_batch: Batch) -> None:
    """All of them are done."""


@command("Proof.Fail")
def fail(_given: dict[str, Any], _context: Context) -> None:
    raise Unavailable(reason="what it needs is down")


def exercise_ingress(exercise: Exercise, handler: Handler) -> None:
    """Accepted, large, repeated, repeated after its window and its end, filtered, full, unsigned, without a secret."""

    def post(endpoint: str, delivery: str, payload: Any = 1, *, secret: str = SECRET, fails: int = 0) -> None:
        body = json.dumps(payload)
        signed = sign(preset("github"), [Secret("s", secret)], body.encode(), system_clock())
        headers = {**signed, "x-github-event": "push", "x-github-delivery": delivery}
        exercise.http(handler, "POST", f"/hook/{exercise.tenant}/{endpoint}", body, headers, fails=fails)

    exercise.publish("Jobs")
    post("Hook", "a", WORDS)
    post("Hook", "a", WORDS)
    post("Elsewhere", "d")
    post("Parameter", "e")
    post("Hook", "b", LARGE)
    with unseen_in_time():
        post("Hook", "b", LARGE)
    post("Sorting", "a")
    post("Hook", "c", secret="not-it", fails=401)
    for _ in range(2):
        post("Hidden", "a")
    post("Filtered", "a", {"wanted": False})
    post("Filtered", "b", {"wanted": True})
    post("Full", "a")
    post("Full", "b", fails=503)
    post("Often", "a")
    exercise.end("Brief")
    time.sleep(1.1)  # past the queue's idempotency window, by the function's own clock
    post("Often", "a")
    exercise.http(handler, "GET", f"/hook/{exercise.tenant}/Hook", fails=405)
    post("Unset", "a", fails=500)
    with patch.dict(os.environ, UNSET_WEBHOOK_SECRET=SECRET):
        post("Unset", "a")


def exercise_worker(exercise: Exercise, handler: Handler) -> None:
    """One and many, of every target: done, retried, dead; too old, abandoned, swept, summoned."""
    exercise.publish("Jobs")
    for name, payloads in {
        "Jobs": (1, STAGED, WORDS),
        "Silent": (1,),
        "Called": (LARGE,),
        "Posted": (1,),
        "Signed": (1,),
        "Ordered": (1, 2),
        "Batched": (1, 2, 3),
        "Aligned": (1,),
        "Fragile": range(12),
    }.items():
        exercise.put(name, *payloads)
        exercise.call(handler, _call(exercise, name))
    for payload in (1, LARGE):  # a small repeat is refused by a write, a large one found by a read
        exercise.put("Forwarded", payload)
        (entry,) = exercise.entries("Forwarded")
        exercise.call(handler, _call(exercise, "Forwarded"))
        exercise.put_back(entry)
        exercise.call(handler, _call(exercise, "Forwarded"))
    exercise.put_back(entry)
    with unseen_in_time():
        exercise.call(handler, _call(exercise, "Forwarded"))
    exercise.end("Brief")
    time.sleep(1.1)  # past the other queue's idempotency window, by the function's own clock
    exercise.put_back(entry)
    exercise.call(handler, _call(exercise, "Forwarded"))
    exercise.leave_behind("Pulled")
    exercise.put("Jobs", 1, 2, 3)
    for part in ("sweep", "gauges", "samples", "dictionaries"):
        exercise.runtime.store.set_sweep_position(part, "a#Stopped")
    exercise.runtime.store.register(exercise.tenant, "Small")  # which nobody has used for long
    with (
        patch.object(samples, "is_due", return_value=True),
        patch.object(sweeper, "LOOK_EVERY", 1),
        patch.object(dictionary_review, "REVIEW_MS", 0),
        patch.object(dictionary_review, "SAMPLE", 3),
        patch.object(dictionary_review, "ENOUGH", 0),
        patch.object(dictionary_review, "MUST_LEAVE", 9),
        patch.object(dictionary_review, "make_content", return_value=b"made"),
    ):
        for _ in range(2):  # the first takes out what is left behind, the second counts what is there
            exercise.call(handler, {"sweep": True})
    exercise.call(handler, _stream(exercise, "Jobs", "Forwarded"))
    exercise.call(handler, _call(exercise, "Jobs"))


def _call(exercise: Exercise, name: str) -> dict[str, Any]:
    return {"tenant": exercise.tenant, "queue": name}


def _stream(exercise: Exercise, *names: str) -> dict[str, Any]:
    keys = [{"pk": {"S": exercise.queue(name).partitions()[0]}, "sk": {"S": "R#x"}} for name in names]
    return {"Records": [{"eventName": "INSERT", "dynamodb": {"Keys": key}} for key in keys]}


def exercise_authoriser(exercise: Exercise, handler: Handler) -> None:
    _, written = issue(exercise.tokens, name="t", scopes=list(Scope), tenants=[exercise.tenant], clock=system_clock)
    for token in (written, "mrt_nonsense", ""):
        answer = exercise.call(
            handler, {"headers": {"authorization": f"Bearer {token}"}, "routeKey": "ANY /v1/{proxy+}"}
        )
        assert answer["isAuthorized"] == (token == written)


def exercise_consumer(exercise: Exercise, handler: Handler) -> None:
    """Every route of the pull API, singly and in batches."""
    call = partial(exercise.visit, handler)
    exercise.publish("Pulled")
    _exercise_waiting(exercise, handler)
    exercise.leave_unsent("Pulled")
    _exercise_enqueues(exercise, call)
    _exercise_claims(call)
    _exercise_uploads(exercise, call)
    (dead_letter,) = exercise.bury("Pulled", LARGE)
    call("GET", f"{PULLED}/messages/{dead_letter.partition('.')[2]}")
    call("GET", "/v1/openapi.json")


def _exercise_waiting(exercise: Exercise, handler: Handler) -> None:
    """A consumer that finds nothing and waits; one for which there is no place, since somebody else has the last."""
    asked = {"wait_ms": 2_000}
    exercise.http(handler, "POST", f"{PULLED}/dequeue", asked)
    held = Slot(0, "somebody", system_clock() + 60_000)
    exercise.runtime.store.take_slot("", "waiting", held, system_clock())
    # Long enough to be about to wait still, however slow its look was.
    exercise.http(handler, "POST", f"{PULLED}/dequeue", {"wait_ms": 20_000}, fails=429)
    exercise.runtime.store.free_slot("", "waiting", held)


def _exercise_enqueues(exercise: Exercise, call: Call) -> None:
    """New, large, filtered, repeated, repeated long after; then everything is looked at."""
    enqueue(exercise.past.queue("Brief"), Draft(b'{"payload": 1}', idempotency_key="old"))
    exercise.past.end("Brief")
    call("POST", "/v1/queues/Brief/messages", {"body": {"payload": 1}, "idempotency_key": "old"})
    call("POST", "/v1/queues/Picky/messages", {"body": {"payload": {"wanted": False}}})
    call("POST", "/v1/queues/Sorted/messages", {"body": {"payload": 1}})
    with unseen_in_time():
        for _ in range(2):
            call("POST", f"{PULLED}/messages/raw", json.dumps({"payload": LARGE}), {"idempotency-key": "large"})
    for _ in range(2):
        lines = [{"body": {"payload": f"{number} {WORDS}"}, "idempotency_key": f"k{number}"} for number in range(9)]
        call("POST", f"{PULLED}/messages/batch", {"messages": lines[:8]})
        first = call("POST", f"{PULLED}/messages", lines[8])["message_id"]
    for path in ("", f"/messages/{first}", f"/messages/{first}/body"):
        call("GET", f"{PULLED}{path}")
    call("GET", "/v1/queues")
    for _ in range(2):
        call("POST", "/v1/queues/Secret/messages", {"body": {"payload": 1}, "idempotency_key": "a"})
    exercise.put("Secret", 2)
    held, _ = call("POST", "/v1/queues/Secret/dequeue", {"max": 2})["messages"]
    call("POST", "/v1/queues/Secret/ack", {"claim": held["claim"], "result": 1})


def _exercise_uploads(exercise: Exercise, call: Call) -> None:
    """Asked for, transferred, enqueued, downloaded under the claim and by parts."""
    files, content = "/v1/queues/Files", b"large" * 1_000_000
    named = {"sha256": sha256(content).hexdigest(), "size": len(content)}
    exercise.cloud.transfer(call("POST", f"{files}/uploads", {**named, "idempotency_key": "file"})["url"], content)
    assert call("POST", f"{files}/uploads", named)["uploaded"]
    message = call("POST", f"{files}/messages", {"body_upload": named, "idempotency_key": "file"})["message_id"]
    (held,) = call("POST", f"{files}/dequeue", {})["messages"]
    assert call("GET", f"{files}/download", headers={"x-millrace-claim": held["claim"]})["url"]
    call("POST", f"{files}/ack", {"claim": held["claim"]})
    assert message == held["message_id"]


def _exercise_claims(call: Call) -> None:
    """Held, extended, released, with state; done and failed, one and many."""

    def take(most: int = 1) -> list[dict[str, Any]]:
        asked = {"max": most, "with_state": True, "with_input": True, "wait_ms": 100}
        return [{"claim": one["claim"]} for one in call("POST", f"{PULLED}/dequeue", asked)["messages"]]

    (held,) = take()
    call("GET", f"{PULLED}/state", headers={"x-millrace-claim": held["claim"]})
    call("PUT", f"{PULLED}/state", {**held, "state": {"n": 1}, "version": 0})
    call("GET", f"{PULLED}/input", headers={"x-millrace-claim": held["claim"]})
    call("POST", f"{PULLED}/extend", held)
    call("POST", f"{PULLED}/release", held)
    (held,) = take()
    for _ in range(2):
        done = call("POST", f"{PULLED}/ack", {**held, "result": 1})
    call("GET", f"{PULLED}/messages/{done['message_id']}")
    (held,) = take()
    call("POST", f"{PULLED}/snooze", {**held, "delay_ms": 0})
    (held,) = take()
    call("POST", f"{PULLED}/nack", {**held, "delay_ms": 0, "error": "no"})
    many = take(8)
    for verb in ("extend", "release"):
        call("POST", f"{PULLED}/{verb}/batch", {"items": many})
    call("POST", f"{PULLED}/snooze/batch", {"items": take(8)})
    reject_it, retry_it, *rest = take(8)
    call("POST", f"{PULLED}/nack/batch", {"items": [{**reject_it, "reject": True}, {**retry_it, "delay_ms": 0}]})
    call("POST", f"{PULLED}/ack/batch", {"items": [{**one, "result": 1} for one in rest]})


def exercise_admin(exercise: Exercise, handler: Handler) -> None:
    """Every route of the admin API, its jobs, and the schedule that goes on with them."""
    call = partial(exercise.visit, handler)
    exercise.publish("Pulled")
    dead_letters = exercise.bury("Pulled", WORDS, 2, 3, LARGE)
    exercise.put("Pulled", 1, 2, 3, 4, LARGE)
    (held,) = claim(exercise.queue("Pulled"), owner="w").claims
    for path in ("whoami", "queues", "jobs", "audit", "webhooks", "schedules"):
        call("GET", f"/admin/{path}")
    for wanted in (held.entry.id, held.entry.correlation_id, dead_letters[0]):
        call("GET", f"/admin/search?q={wanted}")
    message, dead_letter = f"{ADMIN}/messages/{held.entry.id}", f"{ADMIN}/dead-letters/{dead_letters[0]}"
    for path in ("", "/messages", "/claims", "/dead-letters", "/dead-letters/groups", "/history", "/done", "/jobs"):
        call("GET", f"{ADMIN}{path}")
    for path in (dead_letter, f"{dead_letter}/body"):
        call("GET", path)
    call("POST", f"{ADMIN}/dry-run", {})
    (hidden,) = exercise.bury("Secret", 1)
    assert call("GET", f"/admin/queues/Secret/dead-letters/{hidden}")["body"] == {"payload": 1}
    call("POST", f"/admin/queues/Secret/dead-letters/{hidden}/replay")
    store, seen = exercise.queue("Pulled").store, exercise.queue("Pulled").state(fresh=True)
    store.set_breaker(seen, "http:down", BreakerState(1))
    call("POST", f"{ADMIN}/breakers/reset", {})
    for path in (
        f"{ADMIN}/pause",
        f"{ADMIN}/resume",
        f"{message}/release",
        f"{message}/cancel",
        f"{dead_letter}/replay",
    ):
        call("POST", path)
    call("DELETE", dead_letter)
    _forget_message(exercise, dead_letters[1].partition(".")[2])
    call("DELETE", f"{ADMIN}/dead-letters/{dead_letters[1]}")
    _exercise_replays(exercise, call)
    _exercise_replay_in_order(exercise, call)
    _exercise_jobs(exercise, handler, call)
    _exercise_erasures(exercise, handler, call)
    call("GET", "/console")


def _forget_message(exercise: Exercise, message_id: str) -> None:
    """As DynamoDB does at the end of its time, when a dead letter may still be kept."""
    store = exercise.runtime.store
    assert isinstance(store, DynamoStore)
    store._calls.send("delete_item", TableName=store._names.queue, Key=message_key(message_id, MESSAGE))


def _exercise_replays(exercise: Exercise, call: Call) -> None:
    """A dead letter replayed under one key, another, the first again; and under one whose message was done long ago."""
    (dead_letter,) = exercise.bury("Brief", 1)
    past = exercise.past
    found = past.runtime.store.get_dead_letter(exercise.tenant, "Brief", dead_letter.replace(".", "#"))
    assert found is not None
    replay(past.queue("Brief"), found, "one:old")
    past.end("Brief")
    for key in ("a", "b", "a", "old"):
        call(
            "POST",
            f"/admin/queues/Brief/dead-letters/{dead_letter}/replay?again=true",
            headers={"idempotency-key": key},
        )


def _exercise_replay_in_order(exercise: Exercise, call: Call) -> None:
    """Into an ordered queue that has left the list since."""
    (dead_letter,) = exercise.bury("Sorted", 1)
    exercise.runtime.credits.give_back()
    assert exercise.runtime.store.unregister(exercise.queue("Sorted").state(fresh=True))
    call("POST", f"/admin/queues/Sorted/dead-letters/{dead_letter}/replay")


def _exercise_erasures(exercise: Exercise, handler: Handler, call: Call) -> None:
    """A key that an event of the audit log names; then all of the tenant: cancelled, resumed, run to its end."""
    exercise.put("Pulled", 1, LARGE)
    call("POST", f"{ADMIN}/dry-run", {"filter": {"key": "somebody"}})
    call("POST", f"{ADMIN}/jobs", {"kind": "replay", "filter": {"key": "somebody"}})
    for selection in ({"key": "somebody"}, {"everything": True}):
        job = call("POST", "/admin/erasures", {**selection, "confirm": exercise.tenant})["job_id"]
        event = {"job": {"tenant": exercise.tenant, "queue": "", "id": job}}
        call("POST", f"/admin/erasures/{job}/cancel")
        exercise.call(handler, event)
        call("POST", f"/admin/erasures/{job}/resume")
        exercise.call(handler, event)
        assert call("GET", f"/admin/erasures/{job}")["state"] == "done"
    call("GET", "/admin/erasures")


def _exercise_jobs(exercise: Exercise, handler: Handler, call: Call) -> None:
    """Each kind: cancelled, resumed, run to its end; one whose runner died is found by the schedule."""
    base = f"{ADMIN}/jobs"
    for kind in QUEUE_JOBS:
        exercise.bury("Pulled", 1, LARGE)
        job = call("POST", base, {"kind": kind, "confirm": "Pulled"})["job_id"]
        event = {"job": {"tenant": exercise.tenant, "queue": "Pulled", "id": job}}
        call("POST", f"{base}/{job}/cancel")
        exercise.call(handler, event)
        call("POST", f"{base}/{job}/resume")
        exercise.call(handler, event)
        assert call("GET", f"{base}/{job}")["state"] == "done"
    _exercise_windows(exercise, handler, call)
    exercise.bury("Pulled", 1)
    job = call("POST", base, {"kind": "replay"})["job_id"]
    kept = exercise.jobs.get(exercise.tenant, "Pulled", job)
    assert kept is not None
    assert exercise.jobs.take(replace(kept, lease_token="dead", lease_until=1), system_clock())
    assert exercise.call(handler, {"jobs": True})["ran"] == [job]


def _exercise_windows(exercise: Exercise, handler: Handler, call: Call) -> None:
    """A window's dead letters and what is done in it, bodies in the table and in the bucket, to another queue too."""
    until = rfc3339(system_clock() + 60_000)
    window = {"kind": "replay", "of": "all", "received_from": "2020-01-01T00:00:00Z", "received_before": until}
    for more in ({"dry_run": True}, {"again": True}, {"again": True, "to": "Forwarded"}):
        job = call("POST", f"{ADMIN}/jobs", {**window, **more})["job_id"]
        exercise.call(handler, {"job": {"tenant": exercise.tenant, "queue": "Pulled", "id": job}})
        shown = call("GET", f"{ADMIN}/jobs/{job}")
        assert (shown["state"], shown["failed"]) == ("done", 0), shown
