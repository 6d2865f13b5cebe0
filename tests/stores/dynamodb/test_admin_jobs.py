"""Jobs as items: every field kept, one runner at a time, nothing saved by a stale one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.model.admin_jobs import AdminJob, AdminJobKind, AdminJobState
from millrace.model.message import DeadLetterFilter, DeadLetterReason
from millrace.stores.dynamodb.admin_jobs import DynamoAdminJobs
from tests.conftest import NOON
from tests.faults.client import FaultyClient, timed_out_after

JOB = AdminJob(
    "j1",
    "t",
    "Jobs",
    AdminJobKind.REPLAY,
    NOON,
    "token",
    "olga",
    NOON // 1000,
    correlation_id="corr",
    only=DeadLetterFilter(reason=DeadLetterReason.EXPIRED, error_text="x"),
    rate=2.5,
    again=True,
    total=7,
    total_exact=False,
)


@pytest.fixture
def jobs(faults: FaultyClient, calls: Any) -> DynamoAdminJobs:
    client: Any = faults
    return DynamoAdminJobs(client, "queue", calls=calls)


def test_a_job_comes_back_with_every_field(jobs: DynamoAdminJobs) -> None:
    assert jobs.create(JOB) == JOB
    assert jobs.get("t", "Jobs", "j1") == JOB
    assert jobs.create(replace(JOB, done=5)) == JOB, "the first one of an id stays"


def test_a_job_whose_answer_was_lost_is_made_once(jobs: DynamoAdminJobs, faults: FaultyClient) -> None:
    faults.plan(timed_out_after)
    assert jobs.create(JOB) == JOB
    assert jobs.list_jobs("t") == [JOB]


def test_one_runner_takes_a_job_until_its_lease_is_over(jobs: DynamoAdminJobs) -> None:
    jobs.create(JOB)
    mine = replace(JOB, lease_token="mine", lease_until=NOON + 10)
    other = replace(JOB, lease_token="other", lease_until=NOON + 50)
    taken = jobs.take(mine, NOON)
    assert taken is not None
    assert (taken.lease_token, taken.lease_version) == ("mine", 1)
    assert jobs.take(other, NOON + 9) is None
    assert jobs.take(mine, NOON + 9) is not None, "its own runner may take it again"
    assert jobs.take(other, NOON + 10) is not None
    assert jobs.save(replace(mine, done=3)) is None, "a stale runner saves nothing"
    saved = jobs.save(replace(other, done=4, position="p"))
    assert saved is not None
    assert (saved.done, saved.position) == (4, "p")


def test_a_runner_does_not_take_back_the_wish_to_cancel(jobs: DynamoAdminJobs) -> None:
    jobs.create(JOB)
    held = jobs.take(replace(JOB, lease_token="mine", lease_until=NOON + 10), NOON)
    assert held is not None
    asked = jobs.ask_cancel("t", "Jobs", "j1", NOON + 1)
    assert asked is not None
    assert asked.cancel_asked
    saved = jobs.save(replace(held, done=1))
    assert saved is not None
    assert saved.cancel_asked


def test_only_a_stopped_job_is_opened_again(jobs: DynamoAdminJobs) -> None:
    jobs.create(JOB)
    held = jobs.take(replace(JOB, lease_token="mine", lease_until=NOON + 10), NOON)
    assert held is not None
    assert jobs.reopen("t", "Jobs", "j1", NOON) == held
    jobs.save(replace(held, state=AdminJobState.FAILED, note="why", finished_at=NOON))
    assert jobs.list_open() == []
    assert jobs.take(held, NOON + 99) is None, "what has ended is not run"
    opened = jobs.reopen("t", "Jobs", "j1", NOON + 5)
    assert opened is not None
    assert (opened.state, opened.note, opened.finished_at) == (AdminJobState.RUNNING, "", 0)


def test_nothing_is_changed_where_there_is_no_job(jobs: DynamoAdminJobs) -> None:
    assert jobs.ask_cancel("t", "Jobs", "none", NOON) is None
    assert jobs.reopen("t", "Jobs", "none", NOON) is None
    assert jobs.save(JOB) is None
    assert jobs.list_jobs("t") == []
