"""The pull API, put together: every route of `/v1` but for the document itself."""

from __future__ import annotations

from millrace.http.routes import Route
from millrace.pull import dequeue, enqueue, finish, messages, uploads
from millrace.pull.service import PullService

ROUTES: tuple[Route[PullService], ...] = (
    *messages.ROUTES,
    *enqueue.ROUTES,
    *uploads.ROUTES,
    *dequeue.ROUTES,
    *finish.ROUTES,
)
