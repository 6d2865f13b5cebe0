"""Every route of the admin API, in one table."""

from __future__ import annotations

from millrace.admin import (
    audit,
    dead_letter_groups,
    dead_letters,
    done_messages,
    erasures,
    history,
    jobs,
    queues,
    schedules,
    search,
    webhooks,
)
from millrace.admin.service import AdminService
from millrace.http.routes import Route

ROUTES: tuple[Route[AdminService], ...] = (
    *queues.ROUTES,
    *history.ROUTES,
    *done_messages.ROUTES,
    *search.ROUTES,
    *dead_letter_groups.ROUTES,
    *dead_letters.ROUTES,
    *jobs.ROUTES,
    *erasures.ROUTES,
    *audit.ROUTES,
    *webhooks.ROUTES,
    *schedules.ROUTES,
)
