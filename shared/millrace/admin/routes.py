"""Every route of the admin API, in one table."""

from __future__ import annotations

from millrace.admin import looking, operating
from millrace.admin.service import AdminService
from millrace.api.routes import Route

ROUTES: tuple[Route[AdminService], ...] = (*looking.ROUTES, *operating.ROUTES)
