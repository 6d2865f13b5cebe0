"""Every hostile request by name, and the answer that it gets: the one table."""

# ruff: noqa: E501 (a table reads best with a row on a line)
from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

JSON = {"content-type": "application/json"}
MILLION = b"1" * 1_000_000
DEEP = 100_000
#: A request of so many bytes is always handed to a function; one more is refused by it.
BODY_LIMIT = 4_500_000
SEND, RAW, BATCH = "/v1/queues/Jobs/messages", "/v1/queues/Jobs/messages/raw", "/v1/queues/Jobs/messages/batch"
TAKE, ACK = "/v1/queues/Jobs/dequeue", "/v1/queues/Jobs/ack"
LISTED, CLAIMS, DEAD_LETTERS = (f"/admin/queues/Jobs/{name}" for name in ("messages", "claims", "dead-letters"))
AUDIT = "/admin/audit"


@dataclass(frozen=True)
class Case:
    """One request, and what it is told. `{tenant}` in a cursor's scope is filled in when it is sent."""

    name: str
    at: str  #: api, admin or hook
    method: str
    path: str
    status: int
    code: str  #: of the problem; empty where the request is served after all
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=lambda: dict(JSON))
    query: str = ""
    cursor: tuple[Any, ...] = ()  #: written as the list's own cursors are
    raw: dict[str, Any] = field(default_factory=dict)  #: laid over the event


def _bodies() -> Iterator[tuple[str, bytes, str]]:
    """JSON that means harm: name, bytes, the code of the refusal."""
    yield "not JSON", b"{", "invalid_request"
    yield "nested 100,000 lists deep", b"[" * DEEP + b"]" * DEEP, "invalid_request"
    yield "nested 100,000 objects deep", b'{"a":' * DEEP + b"1" + b"}" * DEEP, "invalid_request"
    yield "a hundred thousand brackets left open", b"[" * DEEP, "invalid_request"
    yield "a body nested 201 deep", b'{"body":' + b"[" * 200 + b"]" * 200 + b"}", "invalid_request"
    yield "a number of a million digits", b'{"body":' + MILLION + b"}", "invalid_request"
    yield "a fraction of a million digits over", b'{"body":' + MILLION + b".5}", "invalid_request"
    yield "1e999999", b'{"body": 1e999999}', "invalid_request"
    yield "-1e999999 in a list", b'{"body": [[-1e999999]]}', "invalid_request"
    yield "NaN", b'{"body": NaN}', "invalid_request"
    yield "Infinity", b'{"body": -Infinity}', "invalid_request"
    yield "a member twice", b'{"body": 1, "body": 2}', "invalid_request"
    yield "a member twice, deep inside", b'{"body": {"a": {"b": 1, "b": 2}}}', "invalid_request"
    yield "half a surrogate pair", b'{"body": "\\ud800"}', "invalid_request"
    yield "half a surrogate pair as a name", b'{"body": {"\\udfff": 1}}', "invalid_request"
    yield "bytes that are not UTF-8", b'{"body": "\xff\xfe"}', "invalid_request"
    yield "an overlong encoding", b'{"body": "\xc0\xaf"}', "invalid_request"
    yield "a byte order mark", b'\xef\xbb\xbf{"body": 1}', "invalid_request"
    yield "UTF-16", '{"body": 1}'.encode("utf-16"), "invalid_request"
    yield "UTF-32 without a mark", '{"body": 1}'.encode("utf-32-le"), "invalid_request"
    yield "a null byte", b'{"body": "a\x00b"}', "invalid_request"
    yield "gzip", gzip.compress(b'{"body": 1}'), "invalid_request"
    yield "a bomb in gzip", gzip.compress(b"[" * 20_000_000, 9), "invalid_request"
    yield "a list instead of an object", b"[]", "invalid_field"
    yield "a text instead of an object", b'"body"', "invalid_field"
    yield "an unknown member", b'{"boddy": 1}', "invalid_field"
    yield "a member named like the language's own", b'{"__class__": 1}', "invalid_field"
    yield "a delay of 1e308", b'{"body": 1, "delay_ms": 1e308}', "invalid_field"
    yield "a delay that is a list", b'{"body": 1, "delay_ms": [1]}', "invalid_field"
    yield "a priority that is true", b'{"body": 1, "priority": true}', "invalid_field"
    yield "a time before the calendar", b'{"body": 1, "not_before": "0000-00-00T00:00:00Z"}', "invalid_field"
    yield "a time beyond the calendar", b'{"body": 1, "not_before": "9999-12-31T23:59:59-23:59"}', "invalid_field"
    yield "a time far ahead", b'{"body": 1, "not_before": "9999-12-31T23:59:59Z"}', "invalid_field"
    yield "a header with a line break", b'{"body": 1, "headers": {"a": "b\\r\\nc: d"}}', "invalid_field"
    yield "51 headers", json.dumps({"body": 1, "headers": {f"h{n}": "" for n in range(51)}}).encode(), "invalid_field"
    yield "base64 that is none", b'{"body_base64": "####"}', "invalid_field"
    yield "base64 of other letters", '{"body_base64": "дЖЖ="}'.encode(), "invalid_field"
    yield "an idempotency key of our own kind", b'{"body": 1, "idempotency_key": "\\u001freplay"}', "invalid_field"
    yield "a megabyte of idempotency key", b'{"body": 1, "idempotency_key": "%s"}' % (b"k" * 10**6), "invalid_field"
    yield "labels without end", json.dumps({"body": 1, "labels": ["l"] * 10_000}).encode(), "invalid_field"
    yield "no body at all", b"{}", "invalid_field"


def _cursor(*parts: Any) -> str:
    return urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode()


def _cursors() -> Iterator[tuple[str, str, str, tuple[Any, ...]]]:
    """Name, list, cursor as text, or the parts of one that has the list's own form."""
    for name, path, scope in (
        ("messages", LISTED, "entries#ready#{tenant}#Jobs"),
        ("claims", CLAIMS, "status#in_flight#{tenant}#Jobs"),
    ):
        for number in ("-1", "0", "99", "1e9", "٣", "9" * 1_400, "x", ""):
            yield f"{name}: position {number[:12]!r}", path, "", (scope, number, "R#")
        for key in ("", "\x00", "\ud800", "~" * 1_400, "W#", "Z", "R#\ud800", "\uffff"):
            yield f"{name}: sort key {key[:4]!r}", path, "", (scope, "0", key)
        yield f"{name}: of another queue", path, "", (scope.replace("Jobs", "Wide"), "0", "R#")
        yield f"{name}: of another tenant", path, "", (scope.replace("{tenant}", "other"), "0", "R#")
    scope = "dead#{tenant}#Jobs#new"
    for key in ("", "\x00", "\ud800", "~" * 1_400, "0", "9" * 20, "\uffff"):
        yield f"dead letters: sort key {key[:4]!r}", DEAD_LETTERS, "", (scope, key)
    for text in ("x", "%00", "%ff", _cursor(), _cursor(1, 2), _cursor("a", ["b"]), "A" * 2_048, "[" * 2_000):
        yield f"text {text[:12]!r}", LISTED, text, ()
        yield f"dead letters: text {text[:12]!r}", DEAD_LETTERS, text, ()


def table() -> Iterator[Case]:
    """All of them."""
    yield from _api_cases()
    yield from _cursor_cases()
    yield from _hook_cases()
    yield from _admin_cases()


def _api_cases() -> Iterator[Case]:
    for name, body, code in _bodies():
        yield Case(f"enqueue: {name}", "api", "POST", SEND, 400, code, body)
    large = b'{"body": "%s"}' % (b"x" * (4 * 1024 * 1024))
    yield Case("enqueue: 4 MB", "api", "POST", "/v1/queues/Small/messages", 413, "body_too_large", large)
    over = b"x" * (BODY_LIMIT + 1)
    yield Case("raw: one byte over 4.5 MB", "api", "POST", RAW, 413, "body_too_large", over, {})
    yield Case(
        "raw: a header of a megabyte", "api", "POST", RAW, 400, "invalid_field", b"x", {"idempotency-key": "k" * 10**6}
    )
    yield Case(
        "raw: a content type of a megabyte",
        "api",
        "POST",
        RAW,
        400,
        "invalid_field",
        b"x",
        {"content-type": "k" * 10**6},
    )
    yield Case(
        "raw: a content type with a line break",
        "api",
        "POST",
        RAW,
        400,
        "invalid_field",
        b"x",
        {"content-type": "a\r\nb: c"},
    )
    yield Case(
        "base64 that is none",
        "api",
        "POST",
        SEND,
        400,
        "invalid_request",
        raw={"body": "####", "isBase64Encoded": True},
    )
    yield Case(
        "JSON that says it is base64",
        "api",
        "POST",
        SEND,
        400,
        "invalid_request",
        raw={"body": '{"body": 1}', "isBase64Encoded": True},
    )
    yield Case(
        "base64 that says it is text",
        "api",
        "POST",
        SEND,
        400,
        "invalid_request",
        raw={"body": b64encode(b'{"body": 1}').decode()},
    )
    yield Case(
        "half a surrogate pair in the event",
        "api",
        "POST",
        SEND,
        400,
        "invalid_request",
        raw={"body": '{"body": "\ud800"}'},
    )
    yield Case(
        "a form instead of JSON",
        "api",
        "POST",
        SEND,
        400,
        "invalid_field",
        b"body=1",
        {"content-type": "application/x-www-form-urlencoded"},
    )
    yield Case(
        "101 messages in a batch",
        "api",
        "POST",
        BATCH,
        400,
        "invalid_field",
        json.dumps({"messages": [{}] * 101}).encode(),
    )
    yield Case("a batch that is an object", "api", "POST", BATCH, 400, "invalid_field", b'{"messages": {}}')
    yield Case("a path of 100,000 characters", "api", "GET", "/v1/" + "x" * 100_000, 404, "not_found")
    yield Case("a path with half a surrogate pair", "api", "GET", "/v1/\ud800", 404, "not_found")
    yield Case("a path that is not UTF-8", "api", "GET", "/v1/queues/%ff", 400, "invalid_field")
    yield Case("a path that climbs", "api", "GET", "/v1/queues/..%2f..%2fadmin", 404, "unknown_queue")
    yield Case("a queue's name with a null byte", "api", "GET", "/v1/queues/Jobs%00", 404, "unknown_queue")
    yield Case("a queue's name of 50,000 characters", "api", "GET", f"/v1/queues/{'Q' * 50_000}", 404, "unknown_queue")
    yield Case("a queue's name with half a surrogate pair", "api", "GET", "/v1/queues/\ud800", 404, "unknown_queue")
    yield Case("a message id of 50,000 characters", "api", "GET", f"{SEND}/{'a' * 50_000}", 404, "not_found")
    yield Case("a message id with a separator", "api", "GET", f"{SEND}/a%23b", 404, "not_found")
    yield Case("a method in lower case", "api", "post", SEND, 400, "invalid_field", b"{}")
    yield Case("a method that nobody knows", "api", "BREW", SEND, 405, "method_not_allowed")
    yield Case("a method of 100,000 letters", "api", "X" * 100_000, SEND, 405, "method_not_allowed")
    yield Case(
        "51 parameters", "admin", "GET", LISTED, 400, "invalid_request", query="&".join(f"a{n}=1" for n in range(51))
    )
    yield Case("a parameter twice", "admin", "GET", LISTED, 400, "invalid_request", query="limit=1&limit=2")
    yield Case("an unknown parameter", "admin", "GET", LISTED, 400, "invalid_field", query="limits=1")
    yield Case("a query of a megabyte", "admin", "GET", LISTED, 400, "invalid_field", query="cursor=" + "a" * 10**6)
    yield Case("a query that is not UTF-8", "admin", "GET", LISTED, 400, "invalid_request", query="cursor=%ff")
    yield Case(
        "a limit of a million digits", "admin", "GET", LISTED, 400, "invalid_field", query="limit=" + "9" * 10**6
    )
    yield Case("a limit in other digits", "admin", "GET", LISTED, 400, "invalid_field", query="limit=%D9%A3")
    yield Case("another tenant's name", "admin", "GET", LISTED, 403, "forbidden", query="tenant_id=other")
    yield Case(
        "a tenant's name with a separator", "admin", "GET", LISTED, 400, "invalid_field", query="tenant_id=a%23b"
    )
    yield Case(
        "dead letters from the end of time on",
        "admin",
        "GET",
        DEAD_LETTERS,
        200,
        "",
        query="failed_from=9999-12-31T23:59:59Z",
    )
    yield Case(
        "dead letters before the beginning",
        "admin",
        "GET",
        DEAD_LETTERS,
        200,
        "",
        query="failed_before=0001-01-01T00:00:00Z",
    )
    yield Case("dequeue with a lease of 1e308", "api", "POST", TAKE, 400, "invalid_field", b'{"lease_ms": 1e308}')
    yield Case("dequeue by half a surrogate pair", "api", "POST", TAKE, 400, "invalid_request", b'{"owner": "\\ud800"}')
    for name, claim in (
        ("empty", ""), ("not ours", "c1.e30.AAAA"), ("of a megabyte", "c1." + "A" * 10**6), ("of another kind", "c9.a.b"),
        ("with a null byte", "c1.\\u0000.a"), ("sealed by nobody", "c1." + b64encode(b"[]").decode().rstrip("=") + "." + "A" * 22),
    ):  # fmt: skip
        code = "invalid_field" if name not in ("not ours", "sealed by nobody") else "invalid_field invalid_request"
        yield Case(f"a claim that is {name}", "api", "POST", ACK, 400, code, b'{"claim": "%s"}' % claim.encode())
    many = {**JSON, **{f"x-{n}": "v" for n in range(5_000)}}
    yield Case("5,000 headers", "api", "POST", SEND, 400, "invalid_field", b"{}", many)
    yield Case(
        "a correlation id of a megabyte",
        "api",
        "POST",
        SEND,
        400,
        "invalid_field",
        b"{}",
        {**JSON, "x-correlation-id": "c" * 10**6},
    )
    yield Case(
        "a correlation id with a line break",
        "api",
        "POST",
        SEND,
        400,
        "invalid_field",
        b"{}",
        {**JSON, "x-correlation-id": "c\r\nSet-Cookie: a"},
    )


#: Forged, and good for nothing: a place in the caller's own list.
HARMLESS = ("messages: position '0'", "claims: position '0'", "sort key 'W#'", "sort key 'Z'", "sort key '0'", "sort key '9999'")  # fmt: skip


def _cursor_cases() -> Iterator[Case]:
    for name, path, text, parts in _cursors():
        status, code = (200, "") if name.endswith(HARMLESS) else (400, "invalid_cursor")
        if text == "%ff":
            code = "invalid_request"
        yield Case(f"a cursor, {name}", "admin", "GET", path, status, code, query=f"cursor={text}", cursor=parts)


def _hook_cases() -> Iterator[Case]:
    """At a door that takes anybody's body: what does not fit the queue's type is refused, and a bomb with it."""
    hook = "/hook/Open"
    for name, body in (
        ("nested 100,000 deep", b"[" * DEEP + b"]" * DEEP), ("nested 65 deep", b"[" * 65 + b"]" * 65),
        ("a number of a million digits", MILLION), ("1e999999", b"1e999999"), ("NaN", b"NaN"), ("not JSON", b"{"),
        ("bytes that are not UTF-8", b'"\xff"'), ("a byte order mark", b"\xef\xbb\xbf{}"),
        ("UTF-16", "{}".encode("utf-16")), ("gzip", gzip.compress(b"{}")), ("zlib", zlib.compress(b"{}" * 1_000)),
        ("a bomb in gzip", gzip.compress(b" " * 50_000_000, 9)),
    ):  # fmt: skip
        yield Case(f"hook: {name}", "hook", "POST", hook, 422, "invalid_message", body)
        encoded = {**JSON, "content-encoding": "gzip"}
        yield Case(f"hook: {name}, said to be gzip", "hook", "POST", hook, 422, "invalid_message", body, encoded)
    yield Case("hook: one byte over 4.5 MB", "hook", "POST", hook, 413, "body_too_large", b" " * (BODY_LIMIT + 1))
    yield Case(
        "hook: base64 that is none",
        "hook",
        "POST",
        hook,
        400,
        "invalid_request",
        raw={"body": "####", "isBase64Encoded": True},
    )
    yield Case(
        "hook: base64 that says it is text",
        "hook",
        "POST",
        hook,
        422,
        "invalid_message",
        raw={"body": b64encode(b"{}").decode()},
    )
    yield Case(
        "hook: JSON that says it is base64",
        "hook",
        "POST",
        hook,
        400,
        "invalid_request",
        raw={"body": "{'a'}", "isBase64Encoded": True},
    )
    yield Case("hook: unsigned", "hook", "POST", "/hook/GitHub", 401, "signature_invalid", b"{}")
    signed = {**JSON, "x-hub-signature-256": "sha256=" + "0" * 10**6}
    yield Case(
        "hook: a signature of a megabyte", "hook", "POST", "/hook/GitHub", 401, "signature_invalid", b"{}", signed
    )
    yield Case(
        "hook: a name of 100,000 characters", "hook", "POST", "/hook/" + "x" * 100_000, 404, "unknown_webhook", b"{}"
    )
    yield Case("hook: a name with half a surrogate pair", "hook", "POST", "/hook/\ud800", 404, "unknown_webhook", b"{}")
    yield Case("hook: a climbing path", "hook", "POST", "/hook/../Open/..", 404, "unknown_webhook", b"{}")
    yield Case("hook: another method", "hook", "GET", hook, 405, "method_not_allowed")
    headers = {**JSON, **{f"x-{n}": "v" * 100 for n in range(2_000)}}
    yield Case("hook: 2,000 headers over a bad body", "hook", "POST", hook, 422, "invalid_message", b"{", headers)


def _admin_cases() -> Iterator[Case]:
    jobs = "/admin/queues/Jobs/jobs"
    for name, body, code in _bodies():
        if code == "invalid_request" and "body nested" not in name:
            yield Case(f"a job: {name}", "admin", "POST", jobs, 400, code, body)
    yield Case("a job of no kind", "admin", "POST", jobs, 400, "invalid_field", b'{"kind": "drop"}')
    yield Case(
        "a job with a filter that is a list",
        "admin",
        "POST",
        jobs,
        400,
        "invalid_field",
        b'{"kind": "replay", "filter": []}',
    )
    yield Case("a job's id of 50,000 characters", "admin", "GET", f"{jobs}/{'a' * 50_000}", 404, "not_found")
    yield Case("a job's id with a separator", "admin", "GET", f"{jobs}/a%23b", 404, "not_found")
    yield Case("a job's id with a null byte", "admin", "GET", f"{jobs}/%00", 404, "not_found")
    yield Case("a path that is not UTF-8", "admin", "GET", "/admin/queues/%ff", 400, "invalid_field")
    yield Case("a path with half a surrogate pair", "admin", "GET", "/admin/\ud800", 404, "not_found")
    yield Case(
        "a letter of 50,000 characters",
        "admin",
        "GET",
        f"/admin/queues/Jobs/dead-letters/{'1' * 50_000}",
        404,
        "not_found",
    )
    yield Case(
        "a search for a megabyte", "admin", "GET", "/admin/search", 400, "invalid_field", query="q=" + "a" * 10**6
    )
    yield Case("a search for a null byte", "admin", "GET", "/admin/search", 200, "", query="q=%00")
    for text in ("x", "%00", "A" * 2_048, _cursor(), _cursor("a", ["b"]), _cursor("audit#{tenant}", "\ud800")):
        yield Case(f"audit: cursor {text[:12]!r}", "admin", "GET", AUDIT, 400, "invalid_cursor", query=f"cursor={text}")
    yield Case("a console file that climbs", "admin", "GET", "/console/..%2fapp.py", 404, "not_found")
