"""The audit log: who did what, when, to what, and with which outcome.

An event is written before the change, with the outcome `started`; the outcome follows, once. Nothing is changed
without an event, and nothing that the API offers removes one; an erasure takes the details out of those that name what
it forgets. An event that stays `started` marks a process that died in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from millrace.model.cursor import Page, filtered_page

YEAR_SECONDS = 366 * 86_400
STARTED = "started"


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
    """Where audit events are kept."""

    def begin(self, event: AuditEvent) -> None:
        """Write an event for a change that is about to be made."""

    def end(self, event: AuditEvent) -> bool:
        """Write its outcome, where none is there yet: whether this was the first."""

    def redact(self, event: AuditEvent) -> None:
        """Write its `detail` and `subject` anew, where it is there: they named somebody who is to be forgotten."""

    def read(self, tenant: str, after: str, before: str, limit: int) -> Page[AuditEvent]:
        """Events with `after` < sk < `before`, newest first."""


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which audit events to list."""

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


EVERY_EVENT = AuditFilter()


def list_audit_events(
    audit_log: AuditLog, tenant: str, *, only: AuditFilter = EVERY_EVENT, limit: int = 50, cursor: str | None = None
) -> Page[AuditEvent]:
    """A page of a tenant's audit events, newest first."""

    def read(position: str | None) -> Page[AuditEvent]:
        before = f"{only.before:013d}" if position is None else position
        return audit_log.read(tenant, f"{only.since:013d}", before, min(limit, 100))

    return filtered_page(f"audit#{tenant}", read, only.matches, limit=limit, cursor=cursor)
