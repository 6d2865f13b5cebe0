"""Bodies and results of messages in requests and answers: as JSON, as base64, or as bytes for a download."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from millrace.engine.queue import Runtime
from millrace.http.fields import Kind, Schema, Text
from millrace.http.json_body import parse_json
from millrace.http.response import HttpResponse
from millrace.http.routes import RouteReply
from millrace.model.errors import InvalidField, InvalidRequest
from millrace.model.message import Message

#: Of a body in one answer: base64 adds a third, and a Lambda answers with 6 MB at most.
MAX_PART = 4 * 1024 * 1024
RANGE = re.compile(r"bytes=(\d{1,12})-(\d{0,12})", re.ASCII)
RANGE_HEADER: Mapping[str, Kind] = {"Range": Text(40, 1, r"bytes=\d{1,12}-\d{0,12}", meaning="A part of the body.")}
DOWNLOAD_SUMMARY = f"Download the exact bytes of the body; more than {MAX_PART} bytes come in parts."
_BYTES: Schema = {"type": "string", "format": "binary"}
DOWNLOADS = {
    200: RouteReply("The whole body.", _BYTES, "*/*"),
    206: RouteReply("A part of the body.", _BYTES, "*/*", {"Content-Range": "Which part, and the size of the whole."}),
}


def show_bytes(name: str, data: bytes | None, *, as_json: bool = True) -> dict[str, Any]:
    """Bytes under `name` where they are JSON, else exactly under `name_base64`."""
    if data is None:
        return {}
    if as_json:
        try:
            return {name: parse_json(data)}
        except InvalidRequest:
            pass
    return {f"{name}_base64": base64.b64encode(data).decode()}


def bytes_schemas(name: str, meaning: str) -> dict[str, Schema]:
    """The members that `show_bytes` gives."""
    return {
        name: {"description": f"{meaning}, where it is JSON."},
        f"{name}_base64": {"type": "string", "contentEncoding": "base64", "description": f"{meaning}, exact bytes."},
    }


def as_bytes(body: Mapping[str, Any], name: str) -> bytes | None:
    """What a request gave under `name` (JSON) or `name_base64` (bytes)."""
    if name in body:
        return json.dumps(body[name], ensure_ascii=False, separators=(",", ":")).encode()
    given: bytes | None = body.get(f"{name}_base64")
    return given


def download(content_type: str, content: bytes, asked: str | None) -> HttpResponse:
    """A body, whole or the part of it that is asked for."""
    headers = _download_headers(content_type)
    if not content or (asked is None and len(content) <= MAX_PART):
        return HttpResponse(200, content=content, headers=headers)
    first, last = _range(asked, len(content))
    headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
    return HttpResponse(206, content=content[first : last + 1], headers=headers)


def download_body_of(runtime: Runtime, message: Message, asked: str | None) -> HttpResponse:
    """The body of a message; of a large one that lies alone in the bucket only the part that is asked for is read."""
    body = message.body
    if body.size <= MAX_PART or not runtime.uploads.alone(body):
        return download(message.content_type, runtime.bodies.read(message), asked)
    first, last = _range(asked, body.size)
    headers = _download_headers(message.content_type)
    headers["Content-Range"] = f"bytes {first}-{last}/{body.size}"
    return HttpResponse(206, content=runtime.uploads.part(body, first, last), headers=headers)


def _download_headers(content_type: str) -> dict[str, str]:
    """For saving, never for showing: a browser must not take it for a page."""
    headers = {"Content-Type": content_type, "X-Content-Type-Options": "nosniff", "Accept-Ranges": "bytes"}
    return {**headers, "Content-Disposition": "attachment"}


def _range(asked: str | None, size: int) -> tuple[int, int]:
    found = RANGE.fullmatch(asked or "bytes=0-")
    first = int(found[1]) if found else -1
    last = min(int(found[2]) if found and found[2] else size - 1, size - 1, first + MAX_PART - 1)
    if not 0 <= first <= last:
        raise InvalidField("Range", f"{asked!r} is not within the {size} bytes", "bytes=first-last")
    return first, last
