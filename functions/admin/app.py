"""`/admin` and `/console`: inspect queues, messages and dead letters; replay, purge, pause; the audit log.

Four kinds of events arrive: requests of the API, requests for the console's files, the schedule (go on with jobs that
have no runner), and this function's own calls for one job.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from functions.admin import pages
from millrace.admin.api import ROUTES
from millrace.admin.service import AdminService, InvokeWorker, nobody
from millrace.aws.functions import EventNotSent, LambdaContext, event_sender
from millrace.aws.runtime import aws_runtime, deployed_definitions
from millrace.aws.settings import Settings
from millrace.http.edge import passed, refused
from millrace.http.request import path_of
from millrace.http.routes import Api
from millrace.model.admin_jobs import AdminJob
from millrace.stores.dynamodb.admin_jobs import DynamoAdminJobs
from millrace.stores.dynamodb.audit import DynamoAuditLog
from millrace.stores.dynamodb.client import dynamodb_client

log = logging.getLogger(__name__)


@cache
def service() -> AdminService:
    """Made once for each instance, from its environment."""
    settings = Settings.from_environment(os.environ)
    client, table = dynamodb_client(), settings.queue_table
    return AdminService(
        aws_runtime(settings, client),
        deployed_definitions(settings),
        DynamoAdminJobs(client, table),
        DynamoAuditLog(client, table),
        _invoke_worker(),
        settings.default_tenant,
    )


def handler(event: Mapping[str, Any], context: LambdaContext | None) -> dict[str, Any]:
    """Answer a request, or go on with jobs."""
    if "job" in event or "requestContext" not in event:
        return run_jobs(event, context)
    seen = passed(event, os.environ.get("EDGE_SECRET", ""))
    if seen is None:
        return refused()
    if path_of(seen).startswith("/console"):
        return pages.serve(seen, context)
    return Api(service(), ROUTES, service().default_tenant).handle(seen)


def run_jobs(event: Mapping[str, Any], context: LambdaContext | None) -> dict[str, Any]:
    """One slice of the job that is named, or of every one that has no runner."""
    left_ms: Callable[[], int] = context.get_remaining_time_in_millis if context else lambda: 60_000
    named = event.get("job")
    if not isinstance(named, Mapping):
        return {"ran": [job.id for job in service().run_open_jobs(left_ms)]}
    job = service().jobs.get(str(named.get("tenant")), str(named.get("queue")), str(named.get("id")))
    if job is None:
        return {"ran": []}
    ran = service().run_job(job, left_ms)
    if ran.more:
        service().invoke_worker(ran.job)
    return {"ran": [job.id]}


def _invoke_worker() -> InvokeWorker:
    """In a Lambda, an asynchronous call of itself; in the local stack, a thread; else the schedule finds the job."""
    function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "")
    if function:
        return _lambda_invoke_worker(function)
    return _thread_invoke_worker if os.environ.get("SHARED_PROCESS") else nobody


def _event(job: AdminJob) -> dict[str, Any]:
    return {"job": {"tenant": job.tenant, "queue": job.queue, "id": job.id}}


def _lambda_invoke_worker(function: str) -> InvokeWorker:
    send = event_sender(function)

    def invoke_worker(job: AdminJob) -> None:
        try:
            send(_event(job))
        except EventNotSent:
            log.exception("no runner was called", extra={"action": "invoke_worker_failed", "job": job.id})

    return invoke_worker


def _thread_invoke_worker(job: AdminJob) -> None:
    threading.Thread(target=run_jobs, args=(_event(job), None), daemon=True, name=f"job-{job.id[:8]}").start()
