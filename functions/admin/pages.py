"""The console's files, served as they are: a page, its modules and one style sheet, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteCall, RouteReply

FOLDER = Path(__file__).parent / "console"
#: Nothing runs or loads but our own files; no markup from data, even by mistake (trusted types); no framing.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",
}
ASSETS = {
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
TYPES = {"html": "text/html; charset=utf-8", **ASSETS}


@cache
def _file(name: str) -> bytes:
    return (FOLDER / name).read_bytes()


def _serves(name: str) -> Callable[[Any, RouteCall], HttpResponse]:
    headers = {**HEADERS, "Content-Type": TYPES[name.rpartition(".")[2]]}

    def serve(_service: Any, _call: RouteCall) -> HttpResponse:
        return HttpResponse(200, content=_file(name), headers=headers)

    return serve


def _page(path: str, name: str) -> Route[Any]:
    media_type = TYPES[name.rpartition(".")[2]].partition(";")[0]
    reply = RouteReply("The file.", {"type": "string"}, media_type)
    return Route(
        "GET", path, f"console_{name.replace('.', '_')}", "Part of the console.", _serves(name), {200: reply}, None
    )


PAGES: tuple[Route[Any], ...] = (
    _page("/console", "index.html"),
    *(_page(f"/console/{file.name}", file.name) for file in sorted(FOLDER.iterdir()) if file.suffix[1:] in ASSETS),
)
