"""Everything that may be in no log, sent through a running stack: marked, so that it can be looked for afterwards."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.infra.local.stack import Stack

#: In every body, header value, key, error and result that is sent.
MARK = "m4rk3d"
NOTICES = "/v1/queues/PaymentNotices"
#: What holds messages and secrets by right.
KEPT = ("dynamodb", "s3", "token", "secrets.json", "credentials.json", "table.json", "lock")


def send_private_things(stack: Stack) -> list[str]:
    """Whatever must not be logged, after all of it went through the stack: what is right and what is refused."""
    hidden = [MARK, stack.token, *json.loads((stack.home / "secrets.json").read_text("utf-8")).values()]
    headers = {"user-agent": f"{MARK}-agent", "x-request-id": f"{MARK}-header"}
    incident = {"id": f"{MARK}-id", "title": f"{MARK}-title", "urgency": "high"}
    status, answer = stack.send(incident, headers)
    assert status == 202, answer
    stack.await_done(answer["message_id"])
    assert stack.send({"id": f"{MARK}-7"}, headers)[0] == 202  # its command fails: what it needs is not there
    assert stack.send(incident, {**headers, "x-pagerduty-signature": f"v1={MARK}"})[0] == 401
    forged = {"authorization": f"Bearer mrt_{MARK}aaaaaaaaaa_{MARK}"}
    assert stack.post(f"{NOTICES}/messages", {"body": {"event_id": MARK}}, forged)[0] == 403
    assert stack.post("/v1/queues/WebhookIngress/messages", {"body": {"payload": MARK, MARK: MARK}})[0] == 422
    return [*hidden, *_pulled(stack)]


def _pulled(stack: Stack) -> Iterator[str]:
    """The claims of a consumer elsewhere, which fails once and then succeeds."""
    body = {"event_id": f"{MARK}-event", "type": f"{MARK}-type"}
    draft = {"body": body, "headers": {"x-note": MARK}, "idempotency_key": MARK, "key": MARK}
    assert stack.post(f"{NOTICES}/messages", draft)[0] == 202
    failed = {"error": f"{MARK}-error", "error_type": "Failed", "delay_ms": 0}
    for verb, more in (("nack", failed), ("ack", {"result": {"found": MARK}})):
        status, answer = stack.post(f"{NOTICES}/dequeue", {"wait_ms": 20_000, "owner": "puller"})
        assert (status, len(answer["messages"])) == (200, 1), answer
        claim = answer["messages"][0]["claim"]
        assert stack.post(f"{NOTICES}/{verb}", {"claim": claim, **more})[0] == 200
        assert stack.post(f"{NOTICES}/ack", {"claim": f"{claim[:-1]}_"})[0] in (400, 409, 422)
        payload = claim.split(".")[1]
        yield payload
        yield json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))[4]  # the fencing token


def logs_under(home: Path) -> dict[str, str]:
    """Every file that a process of the stack wrote besides what it keeps."""
    found = [path for path in home.rglob("*") if path.is_file() and path.relative_to(home).parts[0] not in KEPT]
    return {str(path.relative_to(home)): path.read_text("utf-8", "replace") for path in found}


def leaks(logs: dict[str, str], hidden: Iterable[str]) -> list[str]:
    """Lines that show something hidden."""
    return [
        f"{name}:{number}: {secret!r} in {line[:300]}"
        for secret in hidden
        for name, text in logs.items()
        for number, line in enumerate(text.splitlines(), 1)
        if secret in line
    ]
