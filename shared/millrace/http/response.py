"""An HTTP answer, written as API Gateway takes it."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from millrace.http.problems import problem

JSON_TYPE = "application/json"


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """Status, headers and body; a body of bytes goes out exactly as it is."""

    status: int
    document: Any = None
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_event(self, correlation_id: str) -> dict[str, Any]:
        headers = {"X-Correlation-Id": correlation_id, "Cache-Control": "no-store", **self.headers}
        if self.content is not None:
            encoded = base64.b64encode(self.content).decode()
            return {"statusCode": self.status, "headers": headers, "body": encoded, "isBase64Encoded": True}
        headers.setdefault("Content-Type", JSON_TYPE)
        body = json.dumps(self.document, ensure_ascii=False, separators=(",", ":"))
        return {"statusCode": self.status, "headers": headers, "body": body, "isBase64Encoded": False}


def refusal(error: BaseException, correlation_id: str) -> HttpResponse:
    """The problem document for an error."""
    described = problem(error, correlation_id)
    headers = {**described.headers, "X-Content-Type-Options": "nosniff"}
    return HttpResponse(described.status, described.document, headers=headers)


def item_of(status: int, outcome: Mapping[str, Any] | BaseException, correlation_id: str) -> dict[str, Any]:
    """One item of a batch's answer: what it would have been alone."""
    if isinstance(outcome, BaseException):
        described = problem(outcome, correlation_id)
        return {"http_status": described.status, "problem": described.document}
    return {"http_status": status, **outcome}
