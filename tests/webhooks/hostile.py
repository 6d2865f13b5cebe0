"""Calls that no provider makes: every part of a call broken, and hostile bodies with a signature that is right."""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from millrace.model.errors import MillraceError
from tests.webhooks.gate import endpoints, signed, v1, v2

#: Webhooks whose refusals are our own fault by construction.
OUR_FAULT = ("Unset",)
#: What a call may be answered with, whatever it is. Never 5xx: nothing a stranger sends is a fault of ours.
ALLOWED = frozenset({200, 202, 204, 400, 401, 404, 405, 413, 422, 429})

TEXTS = (
    "", " ", "\x00", "\r\n\r\nHTTP/1.1 200 OK", "'; DROP TABLE queue;--", "../../etc/passwd", "%00%2e%2e%2f", "{{7*7}}",
    "\ud800", "\udfff\ud800", "𝄞" * 50, "é" * 3_000, "A" * 9_000, "-1", "9" * 400, "NaN", "null", "true", "[]",
    "\u202e",
    "application/x-www-form-urlencoded", "text/plain; charset=utf-16", "multipart/form-data; boundary=x",
    "t=1,v1=00", "t=,v1=", "v1=" + "0" * 64, "sha256=" + "f" * 64, "v0=ü", "1772442847", "99999999999999999999", "١٢٣٤",
)  # fmt: skip
VALUES: tuple[Any, ...] = (None, True, 0, -1, 1.5, [], {}, [None], {"a": {}}, ["x"] * 50, *TEXTS)


def _json_bodies(rng: random.Random) -> Iterator[bytes]:
    """Bodies that are signed rightly and mean harm."""
    deep = rng.choice([10, 63, 64, 65, 500, 5_000])
    yield b"[" * deep + b"]" * deep
    yield b'{"a":' * deep + b"1" + b"}" * deep
    yield b"[" * deep
    yield b'{"incident":{"id":%s},"id":%s,"repository":{"full_name":%s},"event":{"id":%s}}' % ((_scalar(rng),) * 4)
    yield json.dumps({rng.choice(TEXTS): rng.choice(VALUES) for _ in range(8)}).encode()
    yield b'{"id": "a", "id": %s, "type": [], "created": 1e400, "data": -0}' % _scalar(rng)
    yield b'{"id": %s, "type": %s, "created": %s, "data": {"object": {"customer": %s}}}' % tuple(
        _scalar(rng) for _ in range(4)
    )
    yield rng.randbytes(rng.choice([0, 1, 2, 17, 900, 40_000]))
    yield b"\xef\xbb\xbf{}"
    yield "{}".encode("utf-16")
    yield b"1" * rng.choice([1, 30, 4_299, 4_301, 20_000])
    yield b'"' + b"\\u0000" * 200 + b'"'
    yield b"&".join(b"a%d=%%ff%%00" % number for number in range(rng.choice([1, 1_999, 2_001])))
    yield b'{"type": "url_verification", "challenge": %s}' % _scalar(rng)
    yield b'{"event": "endpoint.url_validation", "payload": %s}' % _scalar(rng)
    yield b'{"challenge": %s}' % _scalar(rng)
    yield b'{"title": %s}' % _scalar(rng)


def _scalar(rng: random.Random) -> bytes:
    return json.dumps(rng.choice(VALUES)).encode()


def _signed(rng: random.Random, now: int) -> dict[str, Any]:
    """A hostile body over a webhook's own signature."""
    names = [name for name in endpoints()["webhooks"] if name not in OUR_FAULT]
    body = rng.choice(list(_json_bodies(rng)))
    kind = rng.choice(
        ["application/json", "application/x-www-form-urlencoded", "application/octet-stream", "", "\ud800"]
    )
    headers = {"content-type": kind, rng.choice(_HEADERS): rng.choice(TEXTS)}
    shapes: list[Callable[..., dict[str, Any]]] = [v2, v2, v1]
    shape = rng.choice(shapes)
    try:
        return shape(signed(rng.choice(names), body, now, headers=headers, delivery_id=f"d-{rng.random()}"))
    except (MillraceError, ValueError, TypeError, AttributeError, RecursionError):
        # The signing side refuses to sign nonsense for some providers; the plain webhook takes it.
        return shape(signed("Generic", body, now, headers={"content-type": "application/json"}))


_HEADERS = (
    "user-agent", "x-correlation-id", "traceparent", "x-github-event", "x-github-delivery", "content-encoding",
    "x-shopify-topic", "authorization", "cookie", "webhook-id", "x-slack-request-timestamp", "x-pagerduty-signature",
    "stripe-signature", "x-hub-signature-256", "content-length", "content-type", "linear-delivery", ":source-ip",
)  # fmt: skip


def _break_headers(rng: random.Random, event: dict[str, Any]) -> None:
    headers = event.get("headers")
    if isinstance(headers, dict) and headers:
        name = rng.choice([*headers, *_HEADERS])
        headers[name] = rng.choice(TEXTS)
        if rng.random() < 0.3:
            headers[name.upper()] = rng.choice(TEXTS)


def _break_body(rng: random.Random, event: dict[str, Any]) -> None:
    text = event.get("body")
    if not isinstance(text, str) or not text:
        event["body"] = rng.choice(VALUES)
        return
    place = rng.randrange(len(text))
    event["body"] = rng.choice(
        [
            text[:place] + rng.choice(TEXTS) + text[place:],
            text[:place],
            text[::-1],
            base64.b64encode(rng.randbytes(50)).decode(),
        ]
    )
    if rng.random() < 0.3:
        event["isBase64Encoded"] = rng.choice([True, False, "true", 1, None])


def _break_path(rng: random.Random, event: dict[str, Any]) -> None:
    path = rng.choice(
        ["/", "", "/hook", "/hook//", "/hook/GitHub/", "//hook//GitHub", "/hook/../GitHub", "/hook/a b/GitHub",
         f"/hook/{rng.choice(TEXTS)}", f"/hook/{rng.choice(TEXTS)}/GitHub", "/x" * 2_000, "/hook/__class__"]
    )  # fmt: skip
    for name in ("rawPath", "path"):
        if name in event:
            event[name] = path


def _break_query(rng: random.Random, event: dict[str, Any]) -> None:
    event["rawQueryString"] = rng.choice(
        ["hub.mode=subscribe", "hub.mode=subscribe&hub.verify_token=%ff&hub.challenge=<script>", "crc_token=",
         "crc_token=%00", "crc_token=" + "a" * 300, "&" * 500, "a=1&" * 200, rng.choice(TEXTS)]
    )  # fmt: skip


def _break_method(rng: random.Random, event: dict[str, Any]) -> None:
    context = event.get("requestContext")
    method = rng.choice(["GET", "PUT", "HEAD", "", "get", "POST\r\n", "\ud800", None, 7])
    if isinstance(context, dict) and isinstance(context.get("http"), dict):
        context["http"]["method"] = method
    else:
        event["httpMethod"] = method


def _break_anything(rng: random.Random, event: dict[str, Any]) -> None:
    """Put a wrong value anywhere in the event."""
    place: Any = event
    while isinstance(place, dict) and place:
        name = rng.choice(list(place))
        if not isinstance(place[name], dict) or rng.random() < 0.4:
            if rng.random() < 0.3:
                del place[name]
            else:
                place[name] = rng.choice(VALUES)
            return
        place = place[name]


_BREAKERS = (
    _break_headers, _break_headers, _break_body, _break_body, _break_path, _break_query, _break_method, _break_anything,
)  # fmt: skip


def hostile_events(seed: int, count: int, now: int) -> Iterator[Any]:
    """So many malformed calls; the same ones for the same seed."""
    rng = random.Random(seed)
    for number in range(count):
        if number % 97 == 0:
            yield rng.choice(VALUES)
            continue
        event = _signed(rng, now)
        if rng.random() < 0.6:
            event = copy.deepcopy(event)
            for _ in range(rng.randint(1, 4)):
                rng.choice(_BREAKERS)(rng, event)
        yield event
