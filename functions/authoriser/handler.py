"""The authoriser of the pull API and the admin API: HTTP API payload 2.0, simple responses.

It says who a token is; each route says which scope it needs. A refusal carries nothing, so that all look the same.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

from millrace.aws.settings import SettingMissing
from millrace.http.request import headers_of
from millrace.model.clock import system_clock
from millrace.model.tokens import Tokens, bearer, verify
from millrace.stores.dynamodb.client import dynamodb_client
from millrace.stores.dynamodb.tokens import DynamoTokens

log = logging.getLogger(__name__)


@cache
def tokens() -> Tokens:
    table = os.environ.get("QUEUE_TABLE", "")
    if not table:
        raise SettingMissing("QUEUE_TABLE", "the name of the queue table, which keeps the tokens")
    return DynamoTokens(dynamodb_client(), table)


def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    token = verify(tokens(), bearer(headers_of(event).get("authorization", "")), system_clock())
    if token is None:
        log.info("token refused", extra={"action": "token_refused", "route": str(event.get("routeKey", ""))})
        return {"isAuthorized": False}
    context = {
        "token_id": token.id,
        "name": token.name,
        "scopes": " ".join(sorted(token.scopes)),
        "tenants": " ".join(token.tenants),
        "queues": " ".join(token.queues),
    }
    return {"isAuthorized": True, "context": context}
