"""Audit events as items: written before a change, ended once, kept under their tenant."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.model.audit import AuditEvent
from millrace.model.errors import StoreUnavailable
from millrace.stores.dynamodb.audit import DynamoAuditLog
from millrace.stores.dynamodb.retrying_client import ConditionFailed
from tests.conftest import NOON
from tests.faults.client import FaultyClient, refused, timed_out_after

EVENT = AuditEvent("e1", NOON, "t", "token", "olga", "pause_queue", NOON // 1000, "Jobs", "m1", "{}", "corr", "::1")
ENDED = replace(EVENT, outcome="ok", result="done", ended_at=NOON + 5)


@pytest.fixture
def audit_log(faults: FaultyClient, calls: Any) -> DynamoAuditLog:
    client: Any = faults
    return DynamoAuditLog(client, "queue", calls=calls)


def listed(audit_log: DynamoAuditLog, tenant: str = "t") -> list[AuditEvent]:
    return list(audit_log.read(tenant, "", "~", 10).items)


def test_an_event_comes_back_with_every_field_and_its_outcome(audit_log: DynamoAuditLog) -> None:
    audit_log.begin(EVENT)
    assert listed(audit_log) == [EVENT]
    assert listed(audit_log, "other") == []
    assert audit_log.end(ENDED)
    assert listed(audit_log) == [ENDED]
    assert not audit_log.end(replace(ENDED, outcome="not_found")), "the first outcome stays"
    assert listed(audit_log) == [ENDED]


def test_answers_that_were_lost_write_nothing_twice(audit_log: DynamoAuditLog, faults: FaultyClient) -> None:
    faults.plan(timed_out_after)
    audit_log.begin(EVENT)
    faults.plan(timed_out_after)
    assert audit_log.end(ENDED)
    assert listed(audit_log) == [ENDED]


def test_an_event_that_cannot_be_written_is_an_error(audit_log: DynamoAuditLog, faults: FaultyClient) -> None:
    faults.plan(refused)
    with pytest.raises(StoreUnavailable):
        audit_log.begin(EVENT)
    audit_log.begin(EVENT)
    with pytest.raises(ConditionFailed):
        audit_log.begin(EVENT)


def test_nothing_is_ended_that_did_not_begin(audit_log: DynamoAuditLog) -> None:
    assert not audit_log.end(ENDED)
    assert listed(audit_log) == []


def test_pages_go_from_the_newest_to_the_oldest(audit_log: DynamoAuditLog) -> None:
    for number in range(3):
        audit_log.begin(replace(EVENT, id=f"e{number}", at=NOON + number))
    first = audit_log.read("t", "", "~", 2)
    assert [event.id for event in first.items] == ["e2", "e1"]
    assert first.next is not None
    second = audit_log.read("t", "", first.next, 2)
    assert ([event.id for event in second.items], second.next) == (["e0"], None)


def test_an_event_can_be_kept_without_what_it_named(audit_log: DynamoAuditLog) -> None:
    audit_log.begin(EVENT)
    audit_log.redact(replace(EVENT, detail="(erased)", subject="", outcome="forged"))
    assert listed(audit_log) == [replace(EVENT, detail="(erased)", subject="")], "nothing else of it changes"
    audit_log.redact(replace(EVENT, id="unknown"))
    assert len(listed(audit_log)) == 1
