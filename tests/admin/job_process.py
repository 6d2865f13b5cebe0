"""A runner of jobs in a process of its own, to be killed: `python -m tests.admin.job_process ENDPOINT TENANT JOB`."""

from __future__ import annotations

import sys

from infra.local.dynamodb import REGION
from millrace.admin.run_job import run_job_slice
from millrace.engine.queue import Queue, Runtime
from millrace.stores.dynamodb.admin_jobs import DynamoAdminJobs
from millrace.stores.dynamodb.client import dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from tests.admin.calling import DEFINITIONS
from tests.conftest import TABLES


def opened(endpoint: str, tenant: str) -> tuple[Queue, DynamoAdminJobs]:
    client = dynamodb_client(endpoint_url=endpoint, region=REGION)
    runtime = Runtime(DynamoStore(client, TABLES), MemoryBlobs())
    return runtime.queue(tenant, DEFINITIONS.queue("Jobs").spec), DynamoAdminJobs(client, TABLES.queue)


def main(endpoint: str, tenant: str, job_id: str) -> None:
    queue, jobs = opened(endpoint, tenant)
    job = jobs.get(tenant, "Jobs", job_id)
    if job is None:
        raise SystemExit("no such job")
    print("running", flush=True)
    print(run_job_slice(jobs, queue, job, lambda: 600_000).job.done, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
