"""The console: a Chalice app that serves a page, its modules and one style sheet, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from chalice.app import Chalice, Request, Response

from millrace.http.request import GatewayEvent, correlation_of, headers_of, method_of, path_of
from millrace.http.response import refusal
from millrace.model.errors import NotFound

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


app = Chalice("millrace-console", configure_logs=False)
app.api.binary_types = []  # every file is text


@app.middleware("http")
def add_headers(event: Request, get_response: Callable[[Request], Response]) -> Response:
    """Every answer carries the headers that keep a browser to our own files."""
    response = get_response(event)
    response.headers = {**HEADERS, **response.headers}
    return response


def _register(path: str, name: str) -> None:
    @app.route(path, methods=["GET"], name=name, content_types=[])
    def view() -> Response:
        return Response(_text(name), {"Content-Type": TYPES[name.rpartition(".")[2]]})


@cache
def _text(name: str) -> str:
    return (FOLDER / name).read_text("utf-8")


_register("/console", "index.html")
for _file in sorted(FOLDER.iterdir()):
    if _file.suffix[1:] in ASSETS:
        _register(f"/console/{_file.name}", _file.name)


def serve(event: GatewayEvent, context: object) -> dict[str, Any]:
    """Answer a request of an HTTP API (payload 2.0) for a file.

    Chalice reads events of a REST API, and takes its route from `resourcePath`: no file has a pattern for its path.
    """
    path, method, correlation_id = path_of(event), method_of(event), correlation_of(event)
    if path not in app.routes:
        return refusal(NotFound("path", path[:80]), correlation_id).to_event(correlation_id)
    rest_event = {
        "httpMethod": method,
        "headers": headers_of(event),
        "multiValueQueryStringParameters": None,
        "pathParameters": {},
        "stageVariables": None,
        "body": "",
        "isBase64Encoded": False,
        "requestContext": {"resourcePath": path, "httpMethod": method},
    }
    answer = app(rest_event, context)
    headers = {**answer["headers"], "X-Correlation-Id": correlation_id}
    return {"statusCode": answer["statusCode"], "headers": headers, "body": answer["body"], "isBase64Encoded": False}
