"""`/v1`: enqueue, dequeue and finish, for producers and workers that live elsewhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from threading import Lock
from typing import Any

from millrace.aws.runtime import aws_runtime, deployed_definitions
from millrace.aws.settings import Settings
from millrace.http.edge import passed, refused
from millrace.http.routes import Api
from millrace.openapi import V1_ROUTES
from millrace.pull.dispatcher import LONE, SHARED, Dispatcher
from millrace.pull.service import PullService
from millrace.pull.waiting_places import MAX_WAITING, MAX_WAITING_PER_TOKEN, ProcessPlaces, TablePlaces
from millrace.stores.dynamodb.client import dynamodb_client
from millrace.stores.dynamodb.tokens import DynamoTokens

_making = Lock()


def api() -> Api[PullService]:
    """The instance's one API. Two of them, made by the first requests of a shared process, would each have waiting
    consumers of its own, and a message would wake only those of one.
    """
    with _making:
        return _made()


@cache
def _made() -> Api[PullService]:
    """Made once for each instance, from its environment.

    SHARED_PROCESS says that many requests are served at once by this process, as the local stack does: then all
    waiting consumers share one reader of the table.
    """
    settings = Settings.from_environment(os.environ)
    most = int(os.environ.get("MAX_WAITING") or MAX_WAITING)
    per_token = int(os.environ.get("MAX_WAITING_PER_TOKEN") or MAX_WAITING_PER_TOKEN)
    if os.environ.get("SHARED_PROCESS"):
        dispatcher = Dispatcher(schedule=SHARED, places=ProcessPlaces(most, per_token))
    else:
        dispatcher = Dispatcher(schedule=LONE, places=TablePlaces(most, per_token))
    client = dynamodb_client()
    tokens = DynamoTokens(client, settings.queue_table)
    service = PullService(aws_runtime(settings, client), deployed_definitions(settings), tokens, dispatcher)
    return Api(service, V1_ROUTES, settings.default_tenant)


def handler(event: Mapping[str, Any], _context: object) -> dict[str, Any]:
    seen = passed(event, os.environ.get("EDGE_SECRET", ""))
    return refused() if seen is None else api().handle(seen)
