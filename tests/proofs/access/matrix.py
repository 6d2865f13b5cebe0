"""Who may do what: every route, by everybody who might ask.

`python -m tests.proofs.access.matrix` prints it as a table.

The routes come from the code itself and from template.yaml; a route without a row here fails the test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from functions.admin.app import TABLE
from infra.local.template import Template
from millrace.http.routes import Route
from millrace.pull.api import ROUTES

#: Everybody who might ask, in the order of the columns.
NOBODY, MALFORMED, UNKNOWN = "no token", "malformed", "unknown"
EXPIRED, REVOKED = "expired", "revoked"
WRONG_SCOPE, WRONG_TENANT, STRANGER, RIGHT = "wrong scope", "wrong tenant", "stranger", "right"
ASKERS = (NOBODY, MALFORMED, UNKNOWN, EXPIRED, REVOKED, WRONG_SCOPE, WRONG_TENANT, STRANGER, RIGHT)
MEANING = {
    WRONG_SCOPE: "every scope but the one that is needed",
    WRONG_TENANT: "a token of another tenant that names this one",
    STRANGER: "the same token without naming a tenant: it asks its own tenant for this one's things",
}


@dataclass(frozen=True)
class Row:
    """How a route is called rightly, and what the right caller and a stranger are told."""

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
    "list_messages": LOOK,
    "list_claims": LOOK,
    "show_message": THING,
    "show_body": THING,
    "pause": LOOK,
    "resume": LOOK,
    "enqueue": Row(202, 202, {"body": 1}),
    "enqueue_raw": Row(202, 202, content=b"x"),
    "enqueue_batch": Row(200, 200, {"messages": [{"body": 1}]}),
    "dequeue": Row(200, 200, {}),
    "read_state": Row(200, 400, headers={"x-millrace-claim": "{claim}"}),
    "write_state": Row(200, 400, {**CLAIM, "state": {}, "version": 0}),
    "ack": Row(200, 400, CLAIM),
    "ack_batch": Row(200, 200, LINES),
    "nack": Row(200, 400, CLAIM),
    "nack_batch": Row(200, 200, LINES),
    "release": Row(200, 400, CLAIM),
    "release_batch": Row(200, 200, LINES),
    "extend": Row(200, 400, CLAIM),
    "extend_batch": Row(200, 200, LINES),
    "list_dead_letters": LOOK,
    "show_dead_letter": THING,
    "replay_dead_letter": Row(202, 404),
    "purge_dead_letter": THING,
    "openapi": OPEN,
    "admin_who_am_i": LOOK,
    "admin_list_queues": LOOK,
    "admin_show_queue": LOOK,
    "admin_list_messages": LOOK,
    "admin_show_message": THING,
    "admin_download_body": THING,
    "admin_list_claims": LOOK,
    "admin_list_dead_letters": LOOK,
    "admin_show_dead_letter": THING,
    "admin_download_dead_letter": THING,
    "admin_search": Row(query="q={message_id}"),
    "admin_pause": LOOK,
    "admin_resume": LOOK,
    "admin_release": Row(200, 404, path={"message_id": "{held_id}"}),
    "admin_replay_dead_letter": Row(202, 404),
    "admin_purge_dead_letter": Row(200, 404),
    "admin_dry_run": Row(200, 200, {}),
    "admin_start_job": Row(202, 202, {"kind": "replay"}),
    "admin_list_queue_jobs": LOOK,
    "admin_list_jobs": LOOK,
    "admin_show_job": THING,
    "admin_cancel_job": Row(200, 404),
    "admin_resume_job": Row(200, 404),
    "admin_list_audit": LOOK,
    **{route.name: OPEN for route in TABLE if route.path.startswith("/console")},
}
#: Webhooks are opened by a signature, whatever token comes along; the right sender signs.
HOOKS = {
    "POST /hook/{name}": 202,
    "POST /hook/{tenant}/{name}": 202,
    "GET /hook/{name}": 405,
    "GET /hook/{tenant}/{name}": 405,
}
EVERY_ROUTE: tuple[Route[Any], ...] = (*ROUTES, *TABLE)


def expected(route: Route[Any]) -> dict[str, int]:
    """What each asker of a route is told."""
    row = ROWS[route.name]
    if route.scope is None:
        return dict.fromkeys(ASKERS, row.right)
    refused = {NOBODY: 401, **dict.fromkeys((MALFORMED, UNKNOWN, EXPIRED, REVOKED, WRONG_SCOPE, WRONG_TENANT), 403)}
    return {**refused, STRANGER: row.stranger, RIGHT: row.right}


def expected_of_hook(key: str) -> dict[str, int]:
    unsigned = 401 if key.startswith("POST") else 405
    return {**dict.fromkeys(ASKERS, unsigned), RIGHT: HOOKS[key]}


def hooks() -> list[str]:
    return [route.key for route in Template.read().routes() if "/hook/" in route.key]


def markdown() -> str:
    """The whole matrix."""
    lines = ["| route | scope | " + " | ".join(ASKERS) + " |", "|---" * (len(ASKERS) + 2) + "|"]
    for route in EVERY_ROUTE:
        told = expected(route)
        scope = route.scope.value if route.scope else "open"
        lines.append(f"| `{route.method} {route.path}` | {scope} | " + " | ".join(str(told[a]) for a in ASKERS) + " |")
    for key in hooks():
        told = expected_of_hook(key)
        lines.append(f"| `{key}` | signature | " + " | ".join(str(told[a]) for a in ASKERS) + " |")
    notes = [f"- *{name}*: {meaning}." for name, meaning in MEANING.items()]
    return "\n".join([*lines, "", *notes])


if __name__ == "__main__":
    print(markdown())
