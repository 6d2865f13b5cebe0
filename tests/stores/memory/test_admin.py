"""Jobs, audit events and tokens in memory keep the promises that the tables keep."""

from __future__ import annotations

from dataclasses import replace

from millrace.model.admin_jobs import AdminJob, AdminJobKind, AdminJobState
from millrace.model.audit import AuditEvent
from millrace.model.tokens import Scope, Token
from millrace.stores.memory.admin import MemoryAdminJobs, MemoryAuditLog, MemoryTokens
from tests.conftest import NOON

JOB = AdminJob("j1", "t", "Jobs", AdminJobKind.REPLAY, NOON, "token", "olga", 1)
EVENT = AuditEvent("e1", NOON, "t", "token", "olga", "pause_queue", 1)


def test_one_runner_has_a_job_and_a_stale_one_saves_nothing() -> None:
    jobs = MemoryAdminJobs()
    assert jobs.create(JOB) == jobs.create(replace(JOB, done=9)) == JOB
    mine = replace(JOB, lease_token="mine", lease_until=NOON + 10)
    other = replace(JOB, lease_token="other", lease_until=NOON + 50)
    assert jobs.take(mine, NOON) is not None
    assert jobs.take(other, NOON + 9) is None
    jobs.ask_cancel("t", "Jobs", "j1", NOON)
    taken = jobs.take(other, NOON + 10)
    assert taken is not None
    assert taken.lease_version == 2
    assert jobs.save(replace(mine, done=1)) is None
    saved = jobs.save(replace(other, done=2))
    assert saved is not None
    assert (saved.done, saved.cancel_asked, saved.lease_version) == (2, True, 2)


def test_a_stopped_job_is_opened_again_and_no_other() -> None:
    jobs = MemoryAdminJobs()
    jobs.create(JOB)
    assert jobs.reopen("t", "Jobs", "j1", NOON) == JOB
    jobs.save(replace(JOB, state=AdminJobState.CANCELLED))
    assert jobs.list_open() == []
    assert jobs.ask_cancel("t", "Jobs", "j1", NOON) == jobs.get("t", "Jobs", "j1"), "what ended is not cancelled"
    opened = jobs.reopen("t", "Jobs", "j1", NOON)
    assert opened is not None
    assert opened.open
    assert jobs.reopen("t", "Jobs", "none", NOON) is None


def test_an_event_is_ended_once_and_listed_under_its_tenant() -> None:
    audit_log = MemoryAuditLog()
    assert not audit_log.end(EVENT)
    audit_log.begin(EVENT)
    ended = replace(EVENT, outcome="ok", ended_at=NOON + 1)
    assert audit_log.end(ended)
    assert not audit_log.end(replace(EVENT, outcome="late"))
    assert audit_log.read("t", "", "~", 5).items == (ended,)
    assert audit_log.read("other", "", "~", 5).items == ()


def test_events_page_from_the_newest() -> None:
    audit_log = MemoryAuditLog()
    for number in range(3):
        audit_log.begin(replace(EVENT, id=f"e{number}", at=NOON + number))
    first = audit_log.read("t", "", "~", 2)
    assert [event.id for event in first.items] == ["e2", "e1"]
    second = audit_log.read("t", "", first.next or "", 2)
    assert ([event.id for event in second.items], second.next) == (["e0"], None)


def test_tokens_are_found_by_id_and_the_first_claim_key_stays() -> None:
    tokens, token = MemoryTokens(), Token("a", "ci", b"d", frozenset(Scope), ("*",), NOON, 0, 0)
    tokens.put_token(token)
    assert (tokens.get_token("a"), tokens.get_token("b"), tokens.list_tokens()) == (token, None, [token])
    assert tokens.claim_key(b"first") == tokens.claim_key(b"second") == b"first"
