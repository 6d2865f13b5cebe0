"""The audit trail: who did what, when, to what, and what came of it.

A deed is written before the change, with the outcome `started`; the outcome follows, once. Nothing is changed
without a deed, and nothing that the API offers changes or removes one. A deed that stays `started` marks a process
that died in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from millrace.model.cursor import Page, check_page, decode_cursor, encode_cursor

YEAR_SECONDS = 366 * 86_400
STARTED = "started"
#: Deeds read at most for one page of a filtered list; the cursor goes on from there.
SCAN_LIMIT = 1_000


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One change that somebody made or tried to make."""

    id: str
    at: int
    tenant: str
    token_id: str
    name: str  #: of the token
    action: str  #: the operation's id in the OpenAPI document
    ttl: int
    queue: str = ""
    subject: str = ""  #: message, dead letter or job
    detail: str = ""  #: what was asked for, as JSON
    correlation_id: str = ""
    source_ip: str = ""
    outcome: str = STARTED  #: `ok`, or the code of the problem
    result: str = ""  #: what came of it: a new message, a job, counts
    ended_at: int = 0

    @property
    def sk(self) -> str:
        return f"{self.at:013d}#{self.id}"


class AuditLog(Protocol):
    """Where deeds are kept."""

    def begin(self, event: AuditEvent) -> None:
        """Write a deed that is about to be done."""

    def end(self, event: AuditEvent) -> bool:
        """Write its outcome, where none is there yet: whether this was the first."""

    def read(self, tenant: str, after: str, before: str, limit: int) -> Page[AuditEvent]:
        """Deeds with `after` < sk < `before`, newest first."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which deeds to list."""

    since: int = 0
    before: int = 9_999_999_999_999
    queue: str = ""
    action: str = ""
    token_id: str = ""
    outcome: str = ""
    subject: str = ""

    def matches(self, event: AuditEvent) -> bool:
        wanted = (self.queue, self.action, self.token_id, self.outcome, self.subject)
        found = (event.queue, event.action, event.token_id, event.outcome, event.subject)
        return all(not want or want == has for want, has in zip(wanted, found, strict=True))


@dataclass(frozen=True, slots=True)
class AuditPage:
    """A page of deeds, newest first."""

    items: list[AuditEvent]
    next: str | None


EVERY_EVENT = AuditFilter()


def list_audit_events(
    audit_log: AuditLog, tenant: str, *, only: AuditFilter = EVERY_EVENT, limit: int = 50, cursor: str | None = None
) -> AuditPage:
    """A page of a tenant's deeds. It may hold fewer than `limit` and still go on, when little matches."""
    check_page(limit)
    scope = f"audit#{tenant}"
    after, before = f"{only.since:013d}", f"{only.before:013d}"
    if cursor is not None:
        (before,) = decode_cursor(scope, cursor, 1)
    found: list[AuditEvent] = []
    scanned = 0
    while True:
        page = audit_log.read(tenant, after, before, min(limit, 100))
        scanned += len(page.items)
        for event in page.items:
            if only.matches(event):
                found.append(event)
            if len(found) == limit:
                return AuditPage(found, encode_cursor(scope, event.sk))
        if page.next is None:
            return AuditPage(found, None)
        if scanned >= SCAN_LIMIT:
            return AuditPage(found, encode_cursor(scope, page.next))
        before = page.next
