"""Which audit events a filter takes, and in which order they lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.model.audit import EVERY_EVENT, STARTED, AuditEvent, AuditFilter

EVENT = AuditEvent("d1", 1_000, "t", "t1", "olga", "pause_queue", 9, queue="Jobs", subject="m1")


@pytest.mark.parametrize("member", ["queue", "action", "token_id", "outcome", "subject"])
def test_a_filter_takes_what_is_equal_in_every_member_that_it_names(member: str) -> None:
    right: dict[str, Any] = {member: getattr(EVENT, member)}
    other: dict[str, Any] = {member: "other"}
    assert replace(EVERY_EVENT, **right).matches(EVENT)
    assert not replace(EVERY_EVENT, **other).matches(EVENT)


def test_an_event_begins_as_started_and_lies_by_its_time() -> None:
    assert EVENT.outcome == STARTED
    assert EVENT.sk == "0000000001000#d1"
    assert EVENT.sk < replace(EVENT, at=10_000).sk
    assert AuditFilter().matches(EVENT)
