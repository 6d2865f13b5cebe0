"""Dead letters by error: counted newest first within bounds, listed, replayed and purged as a group."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.admin import dead_letter_groups
from millrace.admin.run_job import run_job_slice
from millrace.admin.service import AdminService
from millrace.engine.inspect import stats
from tests.admin.calling import Caller, bury
from tests.conftest import Clock

GROUPS = "/admin/queues/Jobs/dead-letters/groups"


def _buried(call: Caller, service: AdminService, clock: Clock) -> None:
    queue = service.queue(call.tenant, "Jobs")
    for number in range(4):
        bury(queue, 1, error=f"order {number} has no customer 'c{number}'", step=lambda: clock.forward(1_000))
    bury(queue, 1, error="the target answered 503", step=lambda: clock.forward(1_000))


def test_equal_errors_are_one_group(call: Caller, service: AdminService, clock: Clock) -> None:
    _buried(call, service, clock)
    found = call.ok("GET", GROUPS)
    assert (found["counted"], found["complete"], found["others"]) == (5, True, 0)
    large, small = found["groups"]
    assert (large["count"], large["error_type"], large["error"]) == (4, "ValueError", "order … has no customer …")
    assert (large["first_seen"], large["last_seen"]) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:00:03.000Z")
    assert large["sample"]["error"] == "order 3 has no customer 'c3'"
    assert (small["count"], small["error"]) == (1, "the target answered 503")
    listed = call.ok("GET", "/admin/queues/Jobs/dead-letters", query=f"fingerprint={large['fingerprint']}")
    assert {dead_letter["fingerprint"] for dead_letter in listed["dead_letters"]} == {large["fingerprint"]}
    assert len(listed["dead_letters"]) == 4


def test_a_count_at_its_bound_says_so_and_goes_on(
    call: Caller, service: AdminService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _buried(call, service, clock)
    monkeypatch.setattr(dead_letter_groups, "READ_PAGE", 2)
    monkeypatch.setattr(dead_letter_groups, "MAX_GROUPED", 2)
    pages: list[Any] = []
    query = ""
    while not pages or pages[-1]["next"]:
        pages.append(call.ok("GET", GROUPS, query=query))
        query = f"cursor={pages[-1]['next']}"
    assert [page["counted"] for page in pages] == [2, 2, 1]
    assert [page["complete"] for page in pages] == [False, False, True]
    assert sum(group["count"] for page in pages for group in page["groups"]) == 5
    assert call("GET", GROUPS, query="cursor=nonsense").json["code"] == "invalid_cursor"


def test_small_groups_beyond_the_limit_are_only_counted(
    call: Caller, service: AdminService, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    _buried(call, service, clock)
    monkeypatch.setattr(dead_letter_groups, "MAX_GROUPS", 1)
    found = call.ok("GET", GROUPS)
    assert ([group["count"] for group in found["groups"]], found["others"]) == ([4], 1)


@pytest.mark.parametrize("kind", ["replay", "purge_dead_letters"])
def test_a_job_takes_a_whole_group_and_nothing_else(
    call: Caller, service: AdminService, clock: Clock, kind: str
) -> None:
    _buried(call, service, clock)
    queue = service.queue(call.tenant, "Jobs")
    only = {"fingerprint": call.ok("GET", GROUPS)["groups"][0]["fingerprint"]}
    assert call.ok("POST", "/admin/queues/Jobs/dry-run", {"filter": only})["count"] == 4
    asked = {"kind": kind, "filter": only, "confirm": "Jobs"}
    started = call.ok("POST", "/admin/queues/Jobs/jobs", asked)
    assert started["filter"]["fingerprint"] == only["fingerprint"]
    job = service.jobs.get(call.tenant, "Jobs", started["job_id"])
    assert job is not None
    assert run_job_slice(service.jobs, queue, job, lambda: 60_000).job.done == 4
    assert stats(queue).dead_letters == 1, "those that were replayed or purged are not counted any more"
    left = call.ok("GET", GROUPS, query="replayed=false")["groups"]
    assert [group["error"] for group in left] == ["the target answered 503"]
    replayed = call.ok("GET", "/admin/queues/Jobs/dead-letters", query="replayed=true")["dead_letters"]
    assert len(replayed) == (4 if kind == "replay" else 0)
