"""Jobs, the audit log and tokens in one process's memory: for tests and for embedding."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from millrace.model.admin_jobs import AdminJob, AdminJobState
from millrace.model.audit import STARTED, AuditEvent
from millrace.model.cursor import Page
from millrace.model.tokens import Token

if TYPE_CHECKING:
    from millrace.model.admin_jobs import AdminJobs
    from millrace.model.audit import AuditLog

_Key = tuple[str, str, str]


class MemoryAdminJobs:
    """Jobs in a dictionary."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[_Key, AdminJob] = {}

    def create(self, job: AdminJob) -> AdminJob:
        with self._lock:
            return self._jobs.setdefault((job.tenant, job.queue, job.id), job)

    def get(self, tenant: str, queue: str, job_id: str) -> AdminJob | None:
        with self._lock:
            return self._jobs.get((tenant, queue, job_id))

    def list_jobs(self, tenant: str, queue: str = "") -> list[AdminJob]:
        with self._lock:
            found = [job for job in self._jobs.values() if job.tenant == tenant and queue in ("", job.queue)]
        return sorted(found, key=lambda job: (job.created_at, job.id), reverse=True)

    def list_open(self) -> list[AdminJob]:
        with self._lock:
            return [job for job in self._jobs.values() if job.open]

    def take(self, job: AdminJob, now: int) -> AdminJob | None:
        def taken(current: AdminJob) -> AdminJob | None:
            own = current.lease_token == job.lease_token
            if not current.open or (current.lease_until > now and not own):
                return None
            version = current.lease_version + 1
            return replace(current, lease_token=job.lease_token, lease_until=job.lease_until, lease_version=version)

        return self._change(job.tenant, job.queue, job.id, taken)

    def save(self, job: AdminJob) -> AdminJob | None:
        def saved(current: AdminJob) -> AdminJob | None:
            if current.lease_token != job.lease_token:
                return None
            return replace(job, cancel_asked=current.cancel_asked, lease_version=current.lease_version)

        return self._change(job.tenant, job.queue, job.id, saved)

    def ask_cancel(self, tenant: str, queue: str, job_id: str, now: int) -> AdminJob | None:
        def asked(current: AdminJob) -> AdminJob | None:
            return replace(current, cancel_asked=True, updated_at=now) if current.open else None

        return self._change(tenant, queue, job_id, asked) or self.get(tenant, queue, job_id)

    def reopen(self, tenant: str, queue: str, job_id: str, now: int) -> AdminJob | None:
        def reopened(current: AdminJob) -> AdminJob | None:
            if current.state not in (AdminJobState.CANCELLED, AdminJobState.FAILED):
                return None
            return replace(
                current, state=AdminJobState.RUNNING, cancel_asked=False, note="", finished_at=0, updated_at=now
            )

        return self._change(tenant, queue, job_id, reopened) or self.get(tenant, queue, job_id)

    def _change(
        self, tenant: str, queue: str, job_id: str, change: Callable[[AdminJob], AdminJob | None]
    ) -> AdminJob | None:
        key = (tenant, queue, job_id)
        with self._lock:
            current = self._jobs.get(key)
            changed = change(current) if current else None
            if changed is not None:
                self._jobs[key] = changed
            return changed


class MemoryAuditLog:
    """Audit events in a dictionary."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: dict[tuple[str, str], AuditEvent] = {}

    def begin(self, event: AuditEvent) -> None:
        with self._lock:
            self._events.setdefault((event.tenant, event.sk), event)

    def end(self, event: AuditEvent) -> bool:
        with self._lock:
            current = self._events.get((event.tenant, event.sk))
            if current is None or current.outcome != STARTED:
                return False
            ended = replace(current, outcome=event.outcome, result=event.result, ended_at=event.ended_at)
            self._events[event.tenant, event.sk] = ended
            return True

    def redact(self, event: AuditEvent) -> None:
        with self._lock:
            current = self._events.get((event.tenant, event.sk))
            if current is not None:
                changed = replace(current, detail=event.detail, subject=event.subject)
                self._events[event.tenant, event.sk] = changed

    def read(self, tenant: str, after: str, before: str, limit: int) -> Page[AuditEvent]:
        with self._lock:
            found = [event for (owner, sk), event in self._events.items() if owner == tenant and after < sk < before]
        found.sort(key=lambda event: event.sk, reverse=True)
        return Page(tuple(found[:limit]), found[limit - 1].sk if len(found) > limit else None)


if TYPE_CHECKING:

    def _keeps_the_interfaces(jobs: MemoryAdminJobs, audit_log: MemoryAuditLog) -> tuple[AdminJobs, AuditLog]:
        return jobs, audit_log


class MemoryTokens:
    """Tokens in a dictionary."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, Token] = {}
        self._claim_key: bytes | None = None

    def put_token(self, token: Token) -> None:
        with self._lock:
            self._tokens[token.id] = token

    def get_token(self, token_id: str) -> Token | None:
        with self._lock:
            return self._tokens.get(token_id)

    def list_tokens(self) -> list[Token]:
        with self._lock:
            return list(self._tokens.values())

    def claim_key(self, proposed: bytes) -> bytes:
        with self._lock:
            self._claim_key = self._claim_key or proposed
            return self._claim_key
