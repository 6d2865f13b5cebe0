"""Jobs in the queue table, under one partition of their own: pk `JOBS`, sk `tenant#queue#id`.

One partition, since people start jobs: they are few, and one query finds those that are to go on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from millrace.model.admin_jobs import AdminJob, AdminJobKind, AdminJobState, filter_document, read_filter
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from millrace.model.admin_jobs import AdminJobs
    from millrace.stores.dynamodb.items import Item

PARTITION = "JOBS"
#: What a runner writes as it goes.
PROGRESS = (
    "state",
    "position",
    "done",
    "skipped",
    "failed",
    "failures",
    "note",
    "updated_at",
    "finished_at",
    "lease_until",
)


class DynamoAdminJobs:
    """Jobs of one deployment: one conditional write for each step."""

    def __init__(self, client: DynamoDBClient, table: str, *, calls: RetryingClient | None = None) -> None:
        self._calls = calls or RetryingClient(client)
        self._table = table

    def create(self, job: AdminJob) -> AdminJob:
        try:
            self._calls.send(
                "put_item",
                TableName=self._table,
                Item=_item(job),
                ConditionExpression="attribute_not_exists(pk)",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except ConditionFailed as refusal:
            return _job(refusal.item) if refusal.item else job
        return job

    def get(self, tenant: str, queue: str, job_id: str) -> AdminJob | None:
        key = _key(tenant, queue, job_id)
        answer = self._calls.send("get_item", TableName=self._table, Key=key, ConsistentRead=True)
        return _job(answer["Item"]) if "Item" in answer else None

    def list_jobs(self, tenant: str, queue: str = "") -> list[AdminJob]:
        found = self._query(f"{tenant}#{queue}#" if queue else f"{tenant}#")
        return sorted(found, key=lambda job: (job.created_at, job.id), reverse=True)

    def list_open(self) -> list[AdminJob]:
        return [job for job in self._query("") if job.open]

    def take(self, job: AdminJob, now: int) -> AdminJob | None:
        free = "(#lease_until <= :now OR #lease_token = :lease_token)"
        return self._update(
            job.tenant,
            job.queue,
            job.id,
            "SET #lease_token = :lease_token, #lease_until = :lease_until ADD #lease_version :one",
            f"#state = :running AND {free}",
            {
                ":lease_token": _value(job.lease_token),
                ":lease_until": _value(job.lease_until),
                ":now": _value(now),
                ":running": _value(AdminJobState.RUNNING),
                ":one": _value(1),
            },
            ("lease_token", "lease_until", "lease_version", "state"),
        )

    def save(self, job: AdminJob) -> AdminJob | None:
        sets = ", ".join(f"#{name} = :{name}" for name in PROGRESS)
        values = {f":{name}": _value(getattr(job, name)) for name in (*PROGRESS, "lease_token")}
        names = (*PROGRESS, "lease_token")
        return self._update(job.tenant, job.queue, job.id, f"SET {sets}", "#lease_token = :lease_token", values, names)

    def ask_cancel(self, tenant: str, queue: str, job_id: str, now: int) -> AdminJob | None:
        asked = self._update(
            tenant,
            queue,
            job_id,
            "SET #cancel_asked = :yes, #updated_at = :now",
            "#state = :running",
            {":yes": {"BOOL": True}, ":now": _value(now), ":running": _value(AdminJobState.RUNNING)},
            ("cancel_asked", "updated_at", "state"),
        )
        return asked or self.get(tenant, queue, job_id)

    def reopen(self, tenant: str, queue: str, job_id: str, now: int) -> AdminJob | None:
        opened = self._update(
            tenant,
            queue,
            job_id,
            "SET #state = :running, #cancel_asked = :no, #note = :empty, #finished_at = :zero, #updated_at = :now",
            "#state IN (:cancelled, :failed)",
            {
                ":running": _value(AdminJobState.RUNNING),
                ":cancelled": _value(AdminJobState.CANCELLED),
                ":failed": _value(AdminJobState.FAILED),
                ":no": {"BOOL": False},
                ":empty": _value(""),
                ":zero": _value(0),
                ":now": _value(now),
            },
            ("state", "cancel_asked", "note", "finished_at", "updated_at"),
        )
        return opened or self.get(tenant, queue, job_id)

    def _update(
        self,
        tenant: str,
        queue: str,
        job_id: str,
        update: str,
        condition: str,
        values: Mapping[str, Any],
        names: Iterable[str],
    ) -> AdminJob | None:
        try:
            answer = self._calls.send(
                "update_item",
                TableName=self._table,
                Key=_key(tenant, queue, job_id),
                UpdateExpression=update,
                ConditionExpression=condition,
                ExpressionAttributeNames={f"#{name}": name for name in names},
                ExpressionAttributeValues=dict(values),
                ReturnValues="ALL_NEW",
            )
        except ConditionFailed:
            return None
        return _job(answer["Attributes"])

    def _query(self, prefix: str) -> list[AdminJob]:
        condition, values = "pk = :pk", {":pk": {"S": PARTITION}}
        if prefix:
            condition, values[":prefix"] = "pk = :pk AND begins_with(sk, :prefix)", {"S": prefix}
        found: list[AdminJob] = []
        start: dict[str, Any] = {}
        while True:
            answer = self._calls.send(
                "query",
                TableName=self._table,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=values,
                ConsistentRead=True,
                **start,
            )
            found += [_job(item) for item in answer["Items"]]
            if "LastEvaluatedKey" not in answer:
                return found
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}


def _key(tenant: str, queue: str, job_id: str) -> Item:
    return {"pk": {"S": PARTITION}, "sk": {"S": f"{tenant}#{queue}#{job_id}"}}


def _value(value: str | float) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"BOOL": value}
    return {"S": str(value)} if isinstance(value, str) else {"N": str(value)}


def _item(job: AdminJob) -> Item:
    written = {field.name: getattr(job, field.name) for field in fields(job) if field.name != "only"}
    only = json.dumps(filter_document(job.only))
    values = {name: _value(value) for name, value in written.items()}
    return {**_key(job.tenant, job.queue, job.id), **values, "only": {"S": only}}


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
