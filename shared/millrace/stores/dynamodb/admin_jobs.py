"""Jobs in the queue table, under one partition of their own: pk `JOBS`, sk `tenant#queue#id`.

One partition, since people start jobs: they are few, and one query finds those that are to go on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from millrace.model.admin_jobs import AdminJob, AdminJobKind, AdminJobState, filter_document, read_filter
from millrace.stores.dynamodb.conditions import ABSENT, Condition, at_most, equal, value_of
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient
from millrace.stores.dynamodb.writes import put, update

if TYPE_CHECKING:
    from millrace.model.admin_jobs import AdminJobs
    from millrace.stores.dynamodb.client import AnyClient
    from millrace.stores.dynamodb.items import Item

PARTITION = "JOBS"
#: What a runner writes as it goes.
PROGRESS = (
    "state",
    "position",
    "in_hand",
    "selects",
    "done",
    "skipped",
    "failed",
    "failures",
    "found",
    "note",
    "updated_at",
    "finished_at",
    "lease_until",
)

_RUNNING = equal("state", AdminJobState.RUNNING)


class DynamoAdminJobs:
    """Jobs of one deployment: one conditional write for each step."""

    def __init__(self, client: AnyClient, table: str, *, calls: RetryingClient | None = None) -> None:
        self._calls = calls or RetryingClient(client)
        self._table = table

    def create(self, job: AdminJob) -> AdminJob:
        try:
            self._calls.send("put_item", **put(self._table, _item(job), ABSENT).request())
        except ConditionFailed as refusal:
            return _job(refusal.item) if refusal.item else job
        return job

    def get(self, tenant: str, queue: str, job_id: str) -> AdminJob | None:
        item = self._calls.get_item(self._table, _key(tenant, queue, job_id))
        return _job(item) if item else None

    def list_jobs(self, tenant: str, queue: str = "") -> list[AdminJob]:
        found = self._query(f"{tenant}#{queue}#" if queue else f"{tenant}#")
        return sorted(found, key=lambda job: (job.created_at, job.id), reverse=True)

    def list_open(self) -> list[AdminJob]:
        return [job for job in self._query() if job.open]

    def _query(self, prefix: str = "") -> list[AdminJob]:
        return [_job(item) for item in self._calls.query_all(self._table, PARTITION, prefix)]

    def take(self, job: AdminJob, now: int) -> AdminJob | None:
        free = at_most("lease_until", now)
        mine = equal("lease_token", job.lease_token)
        lease = {"lease_token": job.lease_token, "lease_until": job.lease_until}
        return self._update(_key_of(job), _RUNNING & (free | mine), lease, adds={"lease_version": 1})

    def save(self, job: AdminJob) -> AdminJob | None:
        mine = equal("lease_token", job.lease_token)
        return self._update(_key_of(job), mine, {name: getattr(job, name) for name in PROGRESS})

    def ask_cancel(self, tenant: str, queue: str, job_id: str, now: int) -> AdminJob | None:
        asked = {"cancel_asked": True, "updated_at": now}
        return self._update(_key(tenant, queue, job_id), _RUNNING, asked) or self.get(tenant, queue, job_id)

    def reopen(self, tenant: str, queue: str, job_id: str, now: int) -> AdminJob | None:
        stopped = equal("state", AdminJobState.CANCELLED) | equal("state", AdminJobState.FAILED)
        opened = {
            "state": AdminJobState.RUNNING,
            "cancel_asked": False,
            "note": "",
            "finished_at": 0,
            "updated_at": now,
        }
        return self._update(_key(tenant, queue, job_id), stopped, opened) or self.get(tenant, queue, job_id)

    def _update(
        self, key: Item, condition: Condition, sets: Mapping[str, Any], adds: Mapping[str, int] | None = None
    ) -> AdminJob | None:
        values = {name: value_of(value) for name, value in sets.items()}
        write = update(self._table, key, condition, sets=values, adds=adds or {})
        try:
            answer = self._calls.send("update_item", **write.request(), ReturnValues="ALL_NEW")
        except ConditionFailed:
            return None
        return _job(answer["Attributes"])


def _key_of(job: AdminJob) -> Item:
    return _key(job.tenant, job.queue, job.id)


def _key(tenant: str, queue: str, job_id: str) -> Item:
    return {"pk": {"S": PARTITION}, "sk": {"S": f"{tenant}#{queue}#{job_id}"}}


def _item(job: AdminJob) -> Item:
    written = {field.name: getattr(job, field.name) for field in fields(job) if field.name != "only"}
    only = json.dumps(filter_document(job.only))
    values = {name: value_of(value) for name, value in written.items()}
    return {**_key_of(job), **values, "only": {"S": only}}


def _job(item: Mapping[str, Any]) -> AdminJob:
    read = {field.name: next(iter(item[field.name].values())) for field in fields(AdminJob) if field.name in item}
    numbers = {name: int(value) for name, value in read.items() if "N" in item[name] and name != "rate"}
    return AdminJob(
        **{
            **read,
            **numbers,
            "kind": AdminJobKind(read["kind"]),
            "state": AdminJobState(read["state"]),
            "only": read_filter(json.loads(read["only"])),
            "rate": float(read["rate"]),
        }
    )


if TYPE_CHECKING:

    def _keeps_the_interface(jobs: DynamoAdminJobs) -> AdminJobs:
        return jobs
