"""MiniStack for one local stack: it answers nobody but who signs with the stack's own access key.

MiniStack takes any credentials and lets every web page read its answers (`Access-Control-Allow-Origin: *`), and it
takes presigned URLs without a look at their signature. Run by MiniStack's own Python, with STACK_ACCESS_KEY set, and
URL_ACCESS_KEY_ID and URL_SECRET_ACCESS_KEY for presigned URLs:

    .venv-ministack/bin/python -P infra/local/guarded_ministack.py
"""

from __future__ import annotations

import hashlib
import hmac
import os
import time
from calendar import timegm
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote

LOOPBACK = {"127.0.0.1", "localhost"}
HEALTH = "/_ministack/health"
REGION = os.environ.get("MINISTACK_REGION", "eu-west-1")
NO_SIGNATURE = "no signature of this stack"


def refusal(headers: Mapping[str, str], path: str, access_key: str) -> str:
    """Why a request is refused: a page of another origin or name, or no signature of ours. Empty where it is not."""
    if headers.get("host", "").rpartition(":")[0] not in LOOPBACK:
        return "a foreign Host"
    if "origin" in headers:
        return "a page of another origin"
    _, _, credential = headers.get("authorization", "").partition("Credential=")
    signer = credential.partition("/")[0]
    if path != HEALTH and not hmac.compare_digest(signer.encode(), access_key.encode()):
        return NO_SIGNATURE
    return ""


def presigned_by(
    keys: tuple[str, str], method: str, path: bytes, query: bytes, headers: Mapping[str, str], now: float
) -> bool:
    """Whether a URL was signed with these keys for this very request, and its time is not over: as S3 checks it."""
    pairs = sorted(parse_qsl(query.decode("latin-1"), keep_blank_values=True))
    given = dict(pairs)
    signature, date = given.pop("X-Amz-Signature", ""), given.get("X-Amz-Date", "")
    signer, _, scope = given.get("X-Amz-Credential", "").partition("/")
    if len(given) != len(pairs) - 1 or signer != keys[0] or scope.count("/") != 3:
        return False
    try:
        signed_at = timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))
        in_time = 0 <= now - signed_at + 60 < int(given["X-Amz-Expires"]) + 60
    except (KeyError, ValueError):
        return False
    names = given.get("X-Amz-SignedHeaders", "").split(";")
    canonical = "\n".join(
        (
            *(method, path.decode("latin-1")),
            "&".join(f"{quote(name, safe='-_.~')}={quote(given[name], safe='-_.~')}" for name in sorted(given)),
            *(f"{name}:{headers.get(name, '').strip()}" for name in names),
            *("", ";".join(names), "UNSIGNED-PAYLOAD"),
        )
    )
    text = "\n".join(("AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = f"AWS4{keys[1]}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return in_time and hmac.compare_digest(hmac.digest(key, text.encode(), "sha256").hex(), signature)


def _own(scope: Any, access_key: str) -> Any:
    """A request whose URL was proven, as the stack's own: MiniStack does not know the keys of URLs."""
    pairs = scope["query_string"].split(b"&")
    query = b"&".join(pair for pair in pairs if not pair.startswith(b"X-Amz-"))
    credential = f"AWS4-HMAC-SHA256 Credential={access_key}/{time.strftime('%Y%m%d')}/{REGION}/s3/aws4_request"
    authorization = (b"authorization", f"{credential}, SignedHeaders=host, Signature={'0' * 64}".encode())
    return {**scope, "query_string": query, "headers": [*scope["headers"], authorization]}


def guarded(app: Any, access_key: str, url_keys: tuple[str, str] | None = None) -> Any:
    """The application behind the refusals."""

    def checked(scope: Any) -> tuple[Any, str]:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        why = refusal(headers, scope["path"], access_key)
        if why != NO_SIGNATURE or url_keys is None or scope["type"] != "http":
            return scope, why
        path = scope.get("raw_path") or quote(scope["path"]).encode()
        asked = (scope["method"], path.partition(b"?")[0], scope["query_string"], headers)
        return (_own(scope, access_key), "") if presigned_by(url_keys, *asked, time.time()) else (scope, why)

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        why = ""
        if scope["type"] != "lifespan":
            scope, why = checked(scope)
        if not why:
            await app(scope, receive, send)
            _keep_keys(scope)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": f"Refused: {why}.".encode()})
        else:
            await send({"type": "websocket.close", "code": 1008})

    return guard


def _keep_keys(scope: Any) -> None:
    """Write KMS's keys down as soon as one was made: MiniStack would do so at its end, and may be killed before."""
    target = dict(scope.get("headers", ())).get(b"x-amz-target", b"")
    if target in (b"TrentService.CreateKey", b"TrentService.CreateAlias"):
        from ministack.core.persistence import save_state  # type: ignore[import-not-found]
        from ministack.services import kms  # type: ignore[import-not-found]

        save_state("kms", kms.get_state())


if __name__ == "__main__":
    from ministack import app as ministack  # type: ignore[import-not-found]

    given = (os.environ.get("URL_ACCESS_KEY_ID", ""), os.environ.get("URL_SECRET_ACCESS_KEY", ""))
    ministack.app = guarded(ministack.app, os.environ["STACK_ACCESS_KEY"], given if all(given) else None)
    ministack.main()
