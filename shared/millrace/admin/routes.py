"""Every route of the admin API, in one table."""

from __future__ import annotations

from millrace.admin import inspect, operate
from millrace.admin.service import AdminService
from millrace.http.routes import Route

ROUTES: tuple[Route[AdminService], ...] = (*inspect.ROUTES, *operate.ROUTES)
