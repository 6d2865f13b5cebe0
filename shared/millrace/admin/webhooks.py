"""Webhooks for operators: where each is called, what it leads to, how it verifies, and why it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from millrace.admin.service import AdminService
from millrace.definitions import WebhookDefinition
from millrace.http.fields import rfc3339
from millrace.http.request import ApiRequest
from millrace.http.response import HttpResponse
from millrace.http.routes import Route, RouteReply
from millrace.http.schemas import JsonObject, list_of, or_null, record, text, time
from millrace.model.errors import NotFound
from millrace.model.tokens import Scope
from millrace.model.webhook_problems import WebhookProblem


def list_webhooks(service: AdminService, request: ApiRequest) -> HttpResponse:
    """Every webhook that is open to the tenant, with its newest problem: one query."""
    now = service.runtime.clock()
    kept = service.runtime.store.read_webhook_problems()
    problems = {found.webhook: found for found in kept if found.counts_at(now)}
    whose = "" if request.tenant == service.default_tenant else f"{request.tenant}/"
    shown = [_show(webhook, whose, problems.get(webhook.name)) for webhook in _open_to(service, request.tenant)]
    reached = [hook for hook in shown if request.principal.reaches(hook["queue"] or "")]
    return HttpResponse(200, {"webhooks": reached})


def _open_to(service: AdminService, tenant: str) -> Iterator[WebhookDefinition]:
    for name in sorted(service.definitions.webhooks):
        with suppress(NotFound):
            yield service.definitions.webhook_of(tenant, name, is_default=tenant == service.default_tenant)


def _show(webhook: WebhookDefinition, whose: str, found: WebhookProblem | None) -> JsonObject:
    return {
        "name": webhook.name,
        "app": webhook.app,
        "path": f"/hook/{whose}{webhook.name}",
        "queue": webhook.queue,
        "command": webhook.target.name if webhook.queue is None and webhook.target else None,
        "verified_by": webhook.provider or ("hmac" if webhook.hmac else "none"),
        "secrets": [secret.name if secret.source == "env" else secret.reference for secret in webhook.secrets],
        "problem": found and {"says": found.problem, "since": rfc3339(found.since), "last": rfc3339(found.last)},
    }


_PROBLEM = record(
    "WebhookProblem",
    {
        "says": text("What is missing, and what to do; never a value."),
        "since": time("When a call first met it."),
        "last": time("When one met it last, give or take a minute; after an hour it is no longer shown."),
    },
)
_WEBHOOK = record(
    "Webhook",
    {
        "name": text(),
        "app": text(),
        "path": text("Where its sender posts to."),
        "queue": text("Null where a command runs at once.", null=True),
        "command": text("The command that runs at once.", null=True),
        "verified_by": text("The provider; `hmac`, or `none` where anybody may call."),
        "secrets": list_of(text("A secret's name or reference, never its value.")),
        "problem": or_null(_PROBLEM),
    },
)
ROUTES: tuple[Route[AdminService], ...] = (
    Route("GET", "/admin/webhooks", "list_webhooks", "operations",
          "List the webhooks: address, queue, how each verifies, and why one cannot.", list_webhooks,
          {200: RouteReply("Every webhook.", record("Webhooks", {"webhooks": list_of(_WEBHOOK)}))}, (Scope.READ,),
          filters_queues=True),
)  # fmt: skip
