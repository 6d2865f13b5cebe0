"""Who may do what: every route, by everybody who might ask.

`python -m tests.proofs.access.matrix` prints it as a table.

The routes come from the code itself and from template.yaml; a route without a row here fails the test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from functions.admin.pages import app as console
from infra.local.template import Template
from millrace.admin.api import ROUTES as ADMIN_ROUTES
from millrace.http.routes import Route
from millrace.openapi import V1_ROUTES

#: Everybody who might ask, in the order of the columns.
NOBODY, MALFORMED, UNKNOWN = "no token", "malformed", "unknown"
EXPIRED, REVOKED = "expired", "revoked"
WRONG_SCOPE, WRONG_TENANT, WRONG_QUEUE = "wrong scope", "wrong tenant", "wrong queue"
STRANGER, RIGHT = "stranger", "right"
ASKERS = (NOBODY, MALFORMED, UNKNOWN, EXPIRED, REVOKED, WRONG_SCOPE, WRONG_TENANT, WRONG_QUEUE, STRANGER, RIGHT)
MEANING = {
    WRONG_SCOPE: "every scope but the one that is needed",
    WRONG_TENANT: "a token of another tenant that names this one",
    WRONG_QUEUE: "a token of this tenant that is limited to another queue",
    STRANGER: "the same token without naming a tenant: it asks its own tenant for this one's things",
}


@dataclass(frozen=True)
class Row:
    """How a route is called rightly, and what the right caller and a stranger are answered."""

    right: int = 200
    stranger: int = 200  #: its own tenant's empty queues, unless the request names a thing of this tenant's
    body: Any = None
    query: str = ""
    content: bytes = b""
    path: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


CLAIM = {"claim": "{claim}"}
LINES = {"items": [CLAIM]}
LOOK, THING, OPEN = Row(), Row(stranger=404), Row()

ROWS: dict[str, Row] = {
    "list_queues": LOOK,
    "show_queue": LOOK,
    "show_message": THING,
    "download_body": THING,
    "enqueue": Row(202, 202, {"body": 1}),
    "enqueue_raw": Row(202, 202, content=b"x"),
    "enqueue_batch": Row(200, 200, {"messages": [{"body": 1}]}),
    "request_upload": Row(200, 200, {"sha256": "0" * 64, "size": 1}),
    "request_download": Row(200, 400, headers={"x-millrace-claim": "{claim}"}),
    "dequeue": Row(200, 200, {}),
    "read_state": Row(200, 400, headers={"x-millrace-claim": "{claim}"}),
    "download_input": Row(200, 400, headers={"x-millrace-claim": "{claim}"}),
    "write_state": Row(200, 400, {**CLAIM, "state": {}, "version": 0}),
    "ack": Row(200, 400, CLAIM),
    "ack_batch": Row(200, 200, LINES),
    "nack": Row(200, 400, CLAIM),
    "nack_batch": Row(200, 200, LINES),
    "release": Row(200, 400, CLAIM),
    "release_batch": Row(200, 200, LINES),
    "snooze": Row(200, 400, CLAIM),
    "snooze_batch": Row(200, 200, LINES),
    "extend": Row(200, 400, CLAIM),
    "extend_batch": Row(200, 200, LINES),
    "openapi": OPEN,
    "who_am_i": LOOK,
    "list_queue_stats": LOOK,
    "show_queue_stats": LOOK,
    "list_schedules": LOOK,
    "list_messages": LOOK,
    "list_claims": LOOK,
    "show_queue_history": LOOK,
    "list_done_messages": LOOK,
    "pause_queue": LOOK,
    "resume_queue": LOOK,
    "reset_breakers": Row(200, 200, {}),
    "break_claim": Row(200, 404, path={"message_id": "{held_id}"}),
    "cancel_message": THING,
    "search": Row(query="q={message_id}"),
    "list_dead_letters": LOOK,
    "list_dead_letter_groups": LOOK,
    "show_dead_letter": THING,
    "download_dead_letter_body": THING,
    "replay_dead_letter": Row(202, 404),
    "purge_dead_letter": THING,
    "dry_run": Row(200, 200, {}),
    "start_job": Row(202, 202, {"kind": "replay"}),
    "list_queue_jobs": LOOK,
    "list_jobs": LOOK,
    "show_job": THING,
    "cancel_job": THING,
    "resume_job": THING,
    "start_erasure": Row(202, 202, {"key": "k", "dry_run": True}),
    "list_erasures": LOOK,
    "show_erasure": Row(stranger=404, path={"job_id": "{erasure_id}"}),
    "cancel_erasure": Row(stranger=404, path={"job_id": "{erasure_id}"}),
    "resume_erasure": Row(stranger=404, path={"job_id": "{erasure_id}"}),
    "list_audit_events": LOOK,
    "list_webhooks": LOOK,
}
#: Webhooks are opened by a signature, whatever token comes along; the right sender signs.
HOOKS = {
    "POST /hook/{name}": 202,
    "POST /hook/{tenant}/{name}": 202,
    "GET /hook/{name}": 405,
    "GET /hook/{tenant}/{name}": 405,
    **{f"{method} /hook/{path}": 405 for method in ("HEAD", "OPTIONS") for path in ("{name}", "{tenant}/{name}")},
}
EVERY_ROUTE: tuple[Route[Any], ...] = (*V1_ROUTES, *ADMIN_ROUTES)


def expected(route: Route[Any]) -> dict[str, int]:
    """The answer to each asker of a route."""
    row = ROWS[route.name]
    if not route.scopes:
        return dict.fromkeys(ASKERS, row.right)
    refused = {NOBODY: 401, **dict.fromkeys((MALFORMED, UNKNOWN, EXPIRED, REVOKED, WRONG_SCOPE, WRONG_TENANT), 403)}
    # A list shows it the queues that it reaches, and the audit log only one that it names.
    wrong_queue = row.right if route.filters_queues and route.name != "list_audit_events" else 403
    return {**refused, WRONG_QUEUE: wrong_queue, STRANGER: row.stranger, RIGHT: row.right}


def expected_of_hook(key: str) -> dict[str, int]:
    unsigned = 401 if key.startswith("POST") else 405
    return {**dict.fromkeys(ASKERS, unsigned), RIGHT: HOOKS[key]}


def pages() -> list[str]:
    """The console's files: open to everybody, since they hold nothing but code."""
    return sorted(console.routes)


def hooks() -> list[str]:
    return [route.key for route in Template.read().routes() if "/hook/" in route.key]


def markdown() -> str:
    """The whole matrix."""
    lines = ["| route | scope | " + " | ".join(ASKERS) + " |", "|---" * (len(ASKERS) + 2) + "|"]
    for route in EVERY_ROUTE:
        found = expected(route)
        scope = " or ".join(route.scopes) or "open"
        lines.append(f"| `{route.method} {route.path}` | {scope} | " + " | ".join(str(found[a]) for a in ASKERS) + " |")
    lines += [f"| `GET {path}` | open | " + " | ".join("200" for _ in ASKERS) + " |" for path in pages()]
    for key in hooks():
        found = expected_of_hook(key)
        lines.append(f"| `{key}` | signature | " + " | ".join(str(found[a]) for a in ASKERS) + " |")
    notes = [f"- *{name}*: {meaning}." for name, meaning in MEANING.items()]
    return "\n".join([*lines, "", *notes])


if __name__ == "__main__":
    print(markdown())
