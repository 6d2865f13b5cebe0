"""The first webhook of a local stack: signed as PagerDuty signs, sent, and watched until it is done."""

from __future__ import annotations

import json
import secrets
import threading
import time
import urllib.error
import urllib.request
from typing import Any

from rich.console import Console

from infra.local.dynamodb import REGION
from infra.local.places import RESOURCES, Places
from millrace.app.secrets import write_privately
from millrace.model.clock import system_clock
from millrace.model.tokens import ANY_TENANT, Scope, issue, verify
from millrace.signatures import Secret
from millrace.signatures.presets import scheme_from
from millrace.signatures.signing import deliver
from millrace.stores.dynamodb.client import dynamodb_client
from millrace.stores.dynamodb.tokens import DynamoTokens

WEBHOOK = "PagerDutyAlert"
QUEUE = "WebhookIngress"
TOUR_SECRET = "PAGERDUTY_WEBHOOK_SECRET"  # noqa: S105 (its name)
#: An end: nothing more will happen to the message.
ENDS = ("done", "dead")
PATIENCE_S = 60


def development_token(places: Places) -> str:
    """The token of this folder: made once, readable by you only, made again when the tables no longer know it."""
    path = places.home / "token"
    client = dynamodb_client(endpoint_url=places.dynamodb_url, region=REGION)
    tokens = DynamoTokens(client, RESOURCES["QueueTable"])
    if path.exists() and verify(tokens, kept := path.read_text("utf-8").strip(), system_clock()):
        return kept
    _, text = issue(tokens, name="development", scopes=list(Scope), tenants=[ANY_TENANT], clock=system_clock)
    write_privately(path, text + "\n")
    return text


def sample() -> bytes:
    """An incident that was not sent before."""
    number = secrets.token_hex(4).upper()
    incident = {"id": f"Q{number}", "type": "incident", "title": "Head race level below 40 cm", "urgency": "high"}
    event = {"id": f"01{number}", "event_type": "incident.triggered", "resource_type": "incident", "data": incident}
    return json.dumps({"event": event}).encode()


def call(method: str, url: str, headers: dict[str, str], body: bytes | None = None) -> tuple[int, Any]:
    request = urllib.request.Request(url, body, headers, method=method)  # noqa: S310 (the loopback)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as refused:
        text = refused.read().decode("utf-8", "replace")
        return refused.code, text


def take_the_tour(console: Console, url: str, token: str, secret: str, stopping: threading.Event) -> bool:
    """Send one webhook and show every state that it is seen in. True when it is done."""
    target = f"{url}/hook/{WEBHOOK}"
    request = deliver(scheme_from({"provider": "pagerduty"}), Secret("local", secret), target, sample(), system_clock())
    console.print(f"\nA signed sample from PagerDuty goes to {target}", highlight=False)
    began = time.monotonic()
    status, answer = call("POST", target, {name: request.headers.one(name) for name in request.headers}, request.body)
    _show(console, began, str(status), "accepted" if status == 202 else str(answer))
    if status != 202:
        return False
    return _watch(console, f"{url}/v1/queues/{QUEUE}/messages/{answer['message_id']}", token, began, stopping)


def _watch(console: Console, url: str, token: str, began: float, stopping: threading.Event) -> bool:
    shown = ""
    while time.monotonic() - began < PATIENCE_S and not stopping.is_set():
        http_status, answer = call("GET", url, {"authorization": f"Bearer {token}"})
        status = answer["status"] if http_status == 200 else f"status {http_status}"
        if status == "done" and not answer["finished_at"]:
            continue  # its result is on its way
        if status != shown:
            shown = status
            _show(console, began, status, _details(answer) if http_status == 200 else str(answer))
        if status in ENDS:
            return status == "done"
        time.sleep(0.02)
    console.print("[yellow]It is not done yet; the log says why.[/yellow]")
    return False


def _details(answer: dict[str, Any]) -> str:
    """Its id, who holds it, its result: what a newcomer wants to see."""
    entry = answer["entry"] or {}
    kept = {
        "message_id": answer["message_id"],
        **{name: entry[name] for name in ("attempts", "owner") if entry.get(name)},
    }
    return json.dumps({**kept, **({"result": answer["result"]} if answer.get("result") else {})}, ensure_ascii=False)


def _show(console: Console, began: float, state: str, details: str) -> None:
    millis = round((time.monotonic() - began) * 1000)
    colour = {"done": "green", "202": "cyan", "dead": "red"}.get(state, "white")
    console.print(f"  {millis:6} ms  [{colour}]{state:9}[/{colour}]", end=" ", highlight=False)
    console.print(details, markup=False, highlight=False, soft_wrap=True)
