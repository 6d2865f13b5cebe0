"""The operators' calls of the API, each written once as steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.client.operations import call, request_key
from millrace.client.steps import Steps
from millrace.client.transport import Side
from millrace.model.cursor import Page

GONE = (404,)


def _admin(queue: str, *rest: str) -> str:
    return "/".join(("/admin/queues", queue, *rest))


def _given(query: Mapping[str, str | None] | None) -> dict[str, str]:
    return {name: value for name, value in (query or {}).items() if value is not None}


def queue_stats(side: Side) -> Steps[list[Mapping[str, Any]]]:
    """Every queue in numbers."""
    found = yield from call(side, "GET", "/admin/queues")
    return list(found["queues"])


def webhooks(side: Side) -> Steps[list[Mapping[str, Any]]]:
    """Every webhook: address, queue, how it verifies, and why it cannot."""
    found = yield from call(side, "GET", "/admin/webhooks")
    return list(found["webhooks"])


def schedules(side: Side) -> Steps[list[Mapping[str, Any]]]:
    """Every schedule: its rule, its last run and its next."""
    found = yield from call(side, "GET", "/admin/schedules")
    return list(found["schedules"])


def listed(
    side: Side, queue: str, what: str, query: Mapping[str, str | None] | None = None
) -> Steps[Page[Mapping[str, Any]]]:
    """A page of a queue's `messages`, `claims` or `dead-letters`."""
    found = yield from call(side, "GET", _admin(queue, what), query=_given(query))
    return Page(tuple(found[what.replace("-", "_")]), found["next"])


def set_paused(side: Side, queue: str, *, paused: bool) -> Steps[Mapping[str, Any]]:
    """Pause or resume a queue: its numbers afterwards."""
    found: Mapping[str, Any] = yield from call(side, "POST", _admin(queue, "pause" if paused else "resume"))
    return found


def reset_breakers(side: Side, queue: str, target: str | None = None) -> Steps[Mapping[str, Any]]:
    """Close the circuit breaker of a target, or all of a queue's: its numbers afterwards."""
    asked = {} if target is None else {"target": target}
    found: Mapping[str, Any] = yield from call(side, "POST", _admin(queue, "breakers", "reset"), asked)
    return found


def dead_letter(side: Side, queue: str, dead_letter_id: str) -> Steps[Mapping[str, Any]]:
    """One dead letter with its history and body."""
    found: Mapping[str, Any] = yield from call(side, "GET", _admin(queue, "dead-letters", dead_letter_id))
    return found


def replay(side: Side, queue: str, dead_letter_id: str, *, again: bool = False) -> Steps[str]:
    """Enqueue a dead letter again: the new message's id. Raises ReplayedBefore, unless asked to do it `again`."""
    path = _admin(queue, "dead-letters", dead_letter_id, "replay")
    query = {"again": "true"} if again else {}
    found = yield from call(side, "POST", path, query=query, headers=request_key())
    return str(found["new_message_id"])


def purge(side: Side, queue: str, dead_letter_id: str) -> Steps[None]:
    """Delete a dead letter for good."""
    yield from call(side, "DELETE", _admin(queue, "dead-letters", dead_letter_id), done_when_repeated=GONE)


def break_claim(side: Side, queue: str, message_id: str) -> Steps[None]:
    """Take a message from whoever holds it; no attempt is charged. Raises ResourceNotFound where nobody holds it."""
    yield from call(side, "POST", _admin(queue, "messages", message_id, "release"), done_when_repeated=GONE)


def cancel_message(side: Side, queue: str, message_id: str, *, running: bool = False) -> Steps[None]:
    """Take a message out of its queue for good; one that a worker holds only where it may be `running`.

    Raises MessageInUse, ResourceNotFound.
    """
    asked = {"running": True} if running else {}
    yield from call(side, "POST", _admin(queue, "messages", message_id, "cancel"), asked, done_when_repeated=GONE)


def search(side: Side, wanted: str) -> Steps[Mapping[str, Any]]:
    """Messages by message id, dead letter id or correlation id: `found`, and whether that is `complete`."""
    found: Mapping[str, Any] = yield from call(side, "GET", "/admin/search", query={"q": wanted})
    return found


def dry_run(side: Side, queue: str, only: Mapping[str, Any] | None = None) -> Steps[Mapping[str, Any]]:
    """What a job with this filter would find; changes nothing."""
    path = _admin(queue, "dry-run")
    found: Mapping[str, Any] = yield from call(side, "POST", path, {"filter": dict(only or {})})
    return found


def start_job(
    side: Side,
    queue: str,
    kind: str,
    only: Mapping[str, Any] | None = None,
    *,
    rate: int | None = None,
    again: bool = False,
    window: Mapping[str, Any] | None = None,
) -> Steps[Mapping[str, Any]]:
    """Start a job over many messages: `replay`, `purge_dead_letters` (with a filter) or `purge_queue`.

    A replay's `window` says more than the queue's dead letters: `of` (done, dead, all), `received_from` and
    `received_before` (RFC 3339), `to` (a queue), `any_order`, `dry_run`.
    """
    asked: dict[str, Any] = {"kind": kind, "again": again} if kind == "replay" else {"kind": kind, "confirm": queue}
    if kind != "purge_queue":
        asked["filter"] = dict(only or {})
    if rate is not None:
        asked["rate"] = rate
    asked.update(window or {})
    path = _admin(queue, "jobs")
    found: Mapping[str, Any] = yield from call(side, "POST", path, asked, headers=request_key())
    return found


def jobs(side: Side, queue: str | None = None, *, limit: int = 50) -> Steps[list[Mapping[str, Any]]]:
    """The jobs of the last 30 days, newest first: of one queue, or of all."""
    path = "/admin/jobs" if queue is None else _admin(queue, "jobs")
    found = yield from call(side, "GET", path, query={"limit": str(limit)})
    return list(found["jobs"])


def job(side: Side, queue: str, job_id: str) -> Steps[Mapping[str, Any]]:
    """A job's progress."""
    found: Mapping[str, Any] = yield from call(side, "GET", _admin(queue, "jobs", job_id))
    return found


def cancel_job(side: Side, queue: str, job_id: str) -> Steps[Mapping[str, Any]]:
    """Stop a job after the message in hand."""
    found: Mapping[str, Any] = yield from call(side, "POST", _admin(queue, "jobs", job_id, "cancel"))
    return found


def resume_job(side: Side, queue: str, job_id: str) -> Steps[Mapping[str, Any]]:
    """Let a stopped job go on from where it was."""
    found: Mapping[str, Any] = yield from call(side, "POST", _admin(queue, "jobs", job_id, "resume"))
    return found


def who_am_i(side: Side) -> Steps[Mapping[str, Any]]:
    """The token's own name, scopes, tenants and queues, and whose queues are meant."""
    found: Mapping[str, Any] = yield from call(side, "GET", "/admin/whoami")
    return found


def start_erasure(
    side: Side, selection: Mapping[str, Any], *, confirm: str = "", dry_run: bool = False
) -> Steps[Mapping[str, Any]]:
    """Forget all that a selection names: one of `key`, `project`, `message_id`, `idempotency_key`, `everything`; a
    `queue` narrows it. `confirm` is the tenant's name, unless it is a dry run.
    """
    asked = {**selection, "dry_run": True} if dry_run else {**selection, "confirm": confirm}
    found: Mapping[str, Any] = yield from call(side, "POST", "/admin/erasures", asked, headers=request_key())
    return found


def erasures(side: Side, *, limit: int = 50) -> Steps[list[Mapping[str, Any]]]:
    """The erasures of the last 30 days, newest first."""
    found = yield from call(side, "GET", "/admin/erasures", query={"limit": str(limit)})
    return list(found["erasures"])


def erasure(side: Side, job_id: str) -> Steps[Mapping[str, Any]]:
    """An erasure's progress."""
    found: Mapping[str, Any] = yield from call(side, "GET", f"/admin/erasures/{job_id}")
    return found


def change_erasure(side: Side, job_id: str, change: str) -> Steps[Mapping[str, Any]]:
    """`cancel` it after the message in hand, or `resume` it from where it was."""
    found: Mapping[str, Any] = yield from call(side, "POST", f"/admin/erasures/{job_id}/{change}")
    return found


def audit_events(side: Side, query: Mapping[str, str | None] | None = None) -> Steps[Page[Mapping[str, Any]]]:
    """A page of the audit log, newest first; by `since`, `before`, `queue`, `action`, `token_id`, `outcome`."""
    found = yield from call(side, "GET", "/admin/audit", query=_given(query))
    return Page(tuple(found["events"]), found["next"])
