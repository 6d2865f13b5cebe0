"""The stores under test: in memory, on DynamoDB Local, and on MiniStack's own DynamoDB.

Two independent engines that agree are worth more than one. MiniStack's queries walk the whole table, so each module
has small tables of its own there.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from localstack_client.session import Session

from infra.local.dynamodb import REGION
from millrace.aws.blobs import S3Blobs
from millrace.model.body import Blobs
from millrace.model.clock import Clock
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.minimal_client import Credentials, MinimalClient
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.interface import Store
from millrace.stores.memory.queue import MemoryBlobs
from tests.app_table import Orders
from tests.faults.client import FaultyClient, StoreOnFaultyClient
from tests.performance.simulation.dynamodb import SimulatedDynamoDB
from tests.performance.simulation.virtual_time import VirtualTime
from tests.stores.samples import Samples

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BUCKET = f"millrace-test-bodies-{os.getpid()}"
_modules = itertools.count(1)


@pytest.fixture(scope="session")
def ministack_session(ministack_url: str, monkeypatch_session: pytest.MonkeyPatch) -> Session:
    """A boto3 session whose every client talks to MiniStack."""
    monkeypatch_session.setenv("AWS_ENDPOINT_URL", ministack_url)
    session = Session(region_name=REGION)
    monkeypatch_session.delenv("AWS_ENDPOINT_URL")
    return session


@pytest.fixture(scope="session")
def monkeypatch_session() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def ministack_tables(ministack_url: str) -> TableNames:
    number = f"{os.getpid()}-{next(_modules)}"
    names = TableNames(f"queue-{number}", f"dead-letters-{number}")
    create_tables(names, endpoint_url=ministack_url, region=REGION)
    return names


@pytest.fixture(scope="session")
def dynamo_client(engine_url: str) -> DynamoDBClient:
    """One for the run: making a client takes longer than most tests."""
    return dynamodb_client(endpoint_url=engine_url, region=REGION)


@pytest.fixture(scope="session")
def ministack_client(ministack_url: str) -> DynamoDBClient:
    return dynamodb_client(endpoint_url=ministack_url, region=REGION)


@pytest.fixture
def dynamo_store(dynamo_client: DynamoDBClient, tables: TableNames, clock: Clock) -> DynamoStore:
    return DynamoStore(dynamo_client, tables, clock=clock)


@pytest.fixture
def ministack_store(ministack_client: DynamoDBClient, ministack_tables: TableNames, clock: Clock) -> DynamoStore:
    return DynamoStore(ministack_client, ministack_tables, clock=clock)


@pytest.fixture(scope="session")
def minimal_dynamo(engine_url: str) -> Iterator[MinimalClient]:
    client = MinimalClient(engine_url, REGION, lambda: Credentials("local", "local"))
    yield client
    client.close()


@pytest.fixture
def minimal_store(minimal_dynamo: MinimalClient, tables: TableNames, clock: Clock) -> DynamoStore:
    """The store on the client that the ingress, the worker and Spark use."""
    return DynamoStore(minimal_dynamo, tables, clock=clock)


@pytest.fixture
def simulated_store(clock: Clock) -> DynamoStore:
    """The model of DynamoDB that the simulation runs on, without its limits: what it answers must be right first."""
    client: Any = SimulatedDynamoDB(VirtualTime(), limits=False)
    return DynamoStore(client, TableNames("queue", "dead-letters"), clock=clock)


@pytest.fixture(params=["memory", "dynamodb", "minimal", "ministack", "simulated"])
def store(request: pytest.FixtureRequest) -> Store:
    """Every implementation in turn: whatever holds on one holds on all."""
    found: Store = request.getfixturevalue(f"{request.param.replace('dynamodb', 'dynamo')}_store")
    return found


_APP_TABLES_BY = {"dynamodb": "dynamo_client", "minimal": "dynamo_client", "ministack": "ministack_client"}


@pytest.fixture
def orders(store: Store, tenant: str, request: pytest.FixtureRequest) -> Orders:
    """A table of an app's own on the same engine."""
    client = _APP_TABLES_BY.get(request.node.callspec.params["store"])
    return Orders(store, tenant, request.getfixturevalue(client) if client else None)


@pytest.fixture(params=[1, 2, 27], ids=["single", "batch", "two-requests"])
def count(request: pytest.FixtureRequest) -> int:
    """One goes as a plain request, more as PartiQL batches of 25."""
    return int(request.param)


@pytest.fixture
def samples(tenant: str) -> Samples:
    return Samples(tenant)


@pytest.fixture(params=["dynamodb", "ministack"])
def faulty(request: pytest.FixtureRequest, clock: Clock) -> StoreOnFaultyClient:
    """A store on each real engine, over a connection that fails as the test says."""
    client, tables = {
        "dynamodb": ("dynamo_client", "tables"),
        "ministack": ("ministack_client", "ministack_tables"),
    }[request.param]
    return StoreOnFaultyClient(FaultyClient(request.getfixturevalue(client)), request.getfixturevalue(tables), clock)


@pytest.fixture(scope="session")
def s3_blobs(ministack_session: Session) -> S3Blobs:
    client: Any = ministack_session.client("s3")
    client.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    return S3Blobs(BUCKET, client)


@pytest.fixture(params=["memory", "s3"])
def blobs(request: pytest.FixtureRequest) -> Blobs:
    """Both places for large bodies."""
    found: Blobs = MemoryBlobs() if request.param == "memory" else request.getfixturevalue("s3_blobs")
    return found
