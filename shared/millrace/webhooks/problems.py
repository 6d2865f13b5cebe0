"""Keeps for operators why a webhook cannot verify: one item a webhook, one write a minute of each process at most.

A process that met a problem takes it back with the first call for which it has the secret; what no call meets for an
hour is no longer shown.
"""

from __future__ import annotations

import logging
from threading import Lock

from millrace.model.clock import MINUTE
from millrace.model.webhook_problems import WebhookProblem
from millrace.signatures import ConfigurationMissing
from millrace.signatures.errors import RefusalReason
from millrace.webhooks.endpoint import Ingress
from millrace.webhooks.serve import Served

log = logging.getLogger(__name__)
#: Between two writes about one webhook.
PAUSE_MS = MINUTE
_REFUSALS = frozenset(RefusalReason)
#: A Lambda serves one call at a time; the local stack's gateway serves many.
_noting = Lock()


def note_problem(ingress: Ingress, served: Served) -> None:
    """Keep or take back what a call shows. Never raises: its sender is answered whatever becomes of the note."""
    problem = served.error.problem if isinstance(served.error, ConfigurationMissing) else ""
    had_secret = bool(served.secret) or served.reason in _REFUSALS
    if not problem and not (had_secret and served.webhook in ingress.noted):
        return
    try:
        with _noting:
            _keep(ingress, served.webhook, problem) if problem else _forget(ingress, served.webhook)
    except Exception as error:  # noqa: BLE001 (a note is worth no sender's answer)
        extra = {"action": "problem_not_noted", "webhook": served.webhook, "error": type(error).__name__}
        log.warning("What keeps a webhook from verifying was not noted.", extra=extra)


def _keep(ingress: Ingress, webhook: str, problem: str) -> None:
    now, noted = ingress.runtime.clock(), ingress.noted.get(webhook)
    if noted is not None and noted.problem == problem and now - noted.last < PAUSE_MS:
        return
    # Remembered before the write: one that fails is not tried again with the next call either.
    ingress.noted[webhook] = WebhookProblem(webhook, problem, noted.since if noted else now, now)
    if noted is None or not noted.counts_at(now):
        found = ingress.runtime.store.read_webhook_problems()
        since = next((one.since for one in found if one.webhook == webhook and one.counts_at(now)), now)
        ingress.noted[webhook] = WebhookProblem(webhook, problem, since, now)
    ingress.runtime.store.put_webhook_problem(ingress.noted[webhook])


def _forget(ingress: Ingress, webhook: str) -> None:
    ingress.runtime.store.delete_webhook_problem(webhook)
    ingress.noted.pop(webhook, None)
