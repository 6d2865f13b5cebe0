"""From a Spark executor to the tables: one client for each Python worker process.

The cache is a module's, not the job file's: Spark imports a module once for a process and unpickles the job's own
functions anew for each task.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from millrace.aws.blobs import S3Blobs
from millrace.aws.kms import KmsKeys
from millrace.aws.runtime import aws_runtime
from millrace.aws.session import session_client
from millrace.aws.settings import Settings
from millrace.engine.queue import Runtime
from millrace.spark.metered_client import MeteredClient


@dataclass(frozen=True, slots=True)
class TableConnection:
    """Where the tables are. Region, credentials and endpoints come from the SDK's own places unless given."""

    queue_table: str
    dead_letter_table: str
    body_bucket: str
    region: str | None = None
    endpoint_url: str | None = None
    s3_endpoint_url: str | None = None
    #: How long a batch is repeated when the table turns it away. The two writes of an enqueue must fit in a minute.
    deadline_s: float = 20.0


@dataclass(frozen=True, slots=True)
class Tables:
    """An open connection: the runtime, and the client whose pace can be set."""

    runtime: Runtime
    client: MeteredClient


@cache
def connect(connection: TableConnection) -> Tables:
    """This process's connection to the tables; the same one for every task that it runs."""
    client = MeteredClient(session_client(connection.region, connection.endpoint_url))
    settings = Settings(connection.queue_table, connection.dead_letter_table, connection.body_bucket)
    blobs = S3Blobs(connection.body_bucket, region=connection.region, endpoint_url=connection.s3_endpoint_url)
    keys = KmsKeys(region=connection.region)
    runtime = aws_runtime(settings, client, deadline_s=connection.deadline_s, blobs=blobs, keys=keys)  # type: ignore[arg-type]
    return Tables(runtime, client)
