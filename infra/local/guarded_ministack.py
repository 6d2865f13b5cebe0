"""MiniStack for one local stack: it answers nobody but who signs with the stack's own access key.

MiniStack takes any credentials and lets every web page read its answers (`Access-Control-Allow-Origin: *`). Run by
MiniStack's own Python, with STACK_ACCESS_KEY set:

    .venv-ministack/bin/python -P infra/local/guarded_ministack.py
"""

from __future__ import annotations

import hmac
import os
from typing import Any

LOOPBACK = {"127.0.0.1", "localhost"}
HEALTH = "/_ministack/health"


def refusal(headers: list[tuple[bytes, bytes]], path: str, access_key: str) -> str:
    """Why a request is refused: a page of another origin or name, or no signature of ours. Empty where it is not."""
    given = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
    if given.get("host", "").rpartition(":")[0] not in LOOPBACK:
        return "a foreign Host"
    if "origin" in given:
        return "a page of another origin"
    _, _, credential = given.get("authorization", "").partition("Credential=")
    signer = credential.partition("/")[0]
    if path != HEALTH and not hmac.compare_digest(signer.encode(), access_key.encode()):
        return "no signature of this stack"
    return ""


def guarded(app: Any, access_key: str) -> Any:
    """The application behind the refusals."""

    async def guard(scope: Any, receive: Any, send: Any) -> None:
        why = refusal(scope["headers"], scope["path"], access_key) if scope["type"] != "lifespan" else ""
        if not why:
            await app(scope, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-type", b"text/plain")]})
            await send({"type": "http.response.body", "body": f"Refused: {why}.".encode()})
        else:
            await send({"type": "websocket.close", "code": 1008})

    return guard


if __name__ == "__main__":
    from ministack import app as ministack  # type: ignore[import-not-found]

    ministack.app = guarded(ministack.app, os.environ["STACK_ACCESS_KEY"])
    ministack.main()
