"""Markup in everything that the console shows: it stays text, wherever it comes from."""

from __future__ import annotations

import json
from typing import Any

from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import RunFailure, ack, nack, reject
from millrace.engine.operate import pause
from millrace.model.clock import system_clock
from millrace.model.message import Draft
from millrace.model.tokens import Scope, issue
from tests.console.stack import Stack
from tests.console.test_console import sign_in

#: Short enough for a project, an owner and a token's name; each field has its own, to see where it shows.
EVIL = "<img src=x onerror=document.title=1>{}"
QUEUE = "GitHubEvents"
TABS = ("dead", "letters", "ready", "scheduled", "claims", "done", "history", "jobs", "definition")


def evil(field: str) -> str:
    return EVIL.format(field)


def _draft(field: str, **more: Any) -> Draft:
    body = json.dumps({evil("name"): evil("body"), "url": "javascript:document.title=1"}).encode()
    return Draft(
        body,
        content_type=evil("type"),
        headers={evil("header"): evil("value")},
        idempotency_key=evil(field),
        key=evil("key"),
        project=evil("project"),
        source=evil("source"),
        **more,
    )


def _furnish(stack: Stack) -> dict[str, str]:
    """One message in each status; their ids."""
    queue = stack.queue(QUEUE)
    failure = RunFailure(evil("kind"), evil("error"))
    ids = {}
    ids["dead"] = enqueue(queue, _draft("dead")).message_id
    (held,) = claim(queue, owner=evil("owner")).claims
    reject(queue, held.entry, held.message, failure)
    ids["scheduled"] = enqueue(queue, _draft("scheduled")).message_id
    (held,) = claim(queue, owner=evil("owner")).claims
    nack(queue, held.entry, held.message, failure, delay_ms=3_000_000)
    ids["done"] = enqueue(queue, _draft("done")).message_id
    (held,) = claim(queue, owner=evil("owner")).claims
    ack(queue, [held.entry], [json.dumps({"result": evil("result")}).encode()])
    ids["claimed"] = enqueue(queue, _draft("claimed")).message_id
    claim(queue, owner=evil("owner"), lease_ms=600_000)
    ids["ready"] = enqueue(queue, _draft("ready")).message_id
    return ids


def _token(stack: Stack) -> str:
    scopes = [Scope.READ, Scope.OPERATE]
    return issue(stack.tokens, name=evil("token"), scopes=scopes, tenants=[stack.tenant], clock=system_clock)[1]


def test_no_field_is_taken_for_markup(page: Any, stack: Stack) -> None:
    ids, token = _furnish(stack), _token(stack)
    pause(stack.queue("OutboundMail"), evil("pauser"))
    sign_in(page, token)
    page.evaluate("(place) => { location.hash = place; }", f"#/queues/{QUEUE}/letters")
    page.get_by_role("button", name="Replay these…").click()
    page.locator("#dry-count").wait_for()
    page.get_by_role("button", name="Replay 1").click()
    page.locator("dialog .badge", has_text="done").wait_for()
    page.get_by_role("button", name="Close").last.click()
    places = ["#/", "#/jobs", "#/audit", "#/queues/OutboundMail/dead", "#/search/javascript:1"]
    places += [f"#/queues/{QUEUE}/{tab}" for tab in TABS]
    places += [f"#/queues/{QUEUE}/messages/{message_id}" for message_id in ids.values()]
    shown: set[str] = set()
    for place in places:
        page.evaluate("(place) => { location.hash = place; }", place)
        page.locator("main .loading").first.wait_for(state="detached")
        page.wait_for_load_state("networkidle")
        shown |= _shown(page)
        assert page.locator("img, main script, iframe, main [onerror], a[href^='javascript']").count() == 0, place
        assert page.title().endswith("Millrace"), place
    missing = {"body", "name", "key", "project", "source", "kind", "error", "owner", "token"} - shown
    assert not missing, f"never shown, so not proven: {missing}"


def _shown(page: Any) -> set[str]:
    """Which fields' markup stands on the page as text."""
    text = page.evaluate(
        "() => document.body.innerText + [...document.querySelectorAll('[title]')].map((n) => n.title)"
    )
    breaker, _, _ = EVIL.partition("{")
    return {piece.split()[0].strip('",:}') for piece in text.replace('\\"', '"').split(breaker)[1:] if piece.strip()}
