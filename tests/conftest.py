"""What every test may ask for: the engine, a clock that stands still, and queues of its own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from mypy_boto3_dynamodb import DynamoDBClient

from infra.local.dynamodb import REGION
from millrace.engine.queue import Queue, Runtime
from millrace.model.queue_spec import QueueSpec
from millrace.model.tokens import Tokens
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.dynamodb.tokens import DynamoTokens
from millrace.stores.interface import Store
from millrace.stores.memory.admin import MemoryTokens
from millrace.stores.memory.keys import MemoryKeys
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.app_table import Orders
from tests.engines import ADDRESS, SharedEngines, shared_engine, use_local_credentials

#: Tests that run side by side share one engine and keep apart by tables.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "alone")
TABLES = TableNames(f"millrace-{WORKER}-queue", f"millrace-{WORKER}-dead-letters")
NOON = 1_800_000_000_000
_engines: list[SharedEngines] = []
_tenants = itertools.count(1)


def pytest_configure() -> None:
    """The process that starts the run holds its engines; those of pytest-xdist find it by their environment."""
    use_local_credentials()
    if ADDRESS not in os.environ:
        _engines.append(SharedEngines())
        os.environ[ADDRESS] = _engines[0].address


def pytest_unconfigure() -> None:
    while _engines:
        del os.environ[ADDRESS]
        _engines.pop().stop()


@pytest.fixture(scope="session")
def engine_url() -> str:
    """DynamoDB Local, one for the run; tests keep apart by tenant."""
    return shared_engine("dynamodb")


@pytest.fixture(scope="session")
def ministack_url() -> str:
    """MiniStack's DynamoDB and S3, one for the run."""
    return shared_engine("ministack")


@pytest.fixture(scope="session")
def tables(engine_url: str) -> TableNames:
    create_tables(TABLES, endpoint_url=engine_url, region=REGION)
    return TABLES


def tables_apart(engine_url: str, name: str) -> TableNames:
    """Tables for a module's fixture `tables`, whose tests read all that is in them."""
    names = TableNames(f"millrace-{WORKER}-{name}-queue", f"millrace-{WORKER}-{name}-dead-letters")
    create_tables(names, endpoint_url=engine_url, region=REGION)
    return names


class Clock:
    """Time that moves only when told to."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def forward(self, millis: int) -> None:
        self.now += millis


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tenant() -> str:
    """A name that no other test uses, in this process or another."""
    return f"t{os.getpid()}-{next(_tenants)}"


@pytest.fixture(scope="session")
def engine_client(engine_url: str) -> Iterator[DynamoDBClient]:
    """One client for all: making one takes longer than most tests."""
    client = dynamodb_client(endpoint_url=engine_url, region=REGION)
    yield client
    client.close()


@pytest.fixture
def dynamo_store(engine_client: DynamoDBClient, tables: TableNames, clock: Clock) -> DynamoStore:
    return DynamoStore(engine_client, tables, clock=clock)


@pytest.fixture
def memory_store(clock: Clock) -> MemoryStore:
    return MemoryStore(clock)


@pytest.fixture(params=["memory", "dynamodb"])
def store(request: pytest.FixtureRequest) -> Store:
    """Every store in turn: the same promises hold on each."""
    found: Store = request.getfixturevalue({"memory": "memory_store", "dynamodb": "dynamo_store"}[request.param])
    return found


@pytest.fixture
def tokens(store: Store) -> Tokens:
    """Tokens on the same store."""
    if isinstance(store, DynamoStore):
        return DynamoTokens(store._calls.client, store._names.queue)
    return MemoryTokens()


class Bench:
    """Queues on one store, with time and chance in the test's hand."""

    def __init__(self, store: Store, clock: Clock, tenant: str) -> None:
        self.store = store
        self.clock = clock
        self.tenant = tenant
        self.chance = 0.5
        self.blobs = MemoryBlobs()
        self.keys = MemoryKeys()
        self.runtime = self.another_process()

    def another_process(self) -> Runtime:
        """A runtime that shares nothing but the store, as a second Lambda instance would."""
        return Runtime(self.store, self.blobs, clock=self.clock, chance=lambda: self.chance, keys=self.keys)

    def queue(self, name: str = "Jobs", *, runtime: Runtime | None = None, **settings: object) -> Queue:
        return (runtime or self.runtime).queue(self.tenant, QueueSpec(name, **settings))  # type: ignore[arg-type]


@pytest.fixture
def bench(store: Store, clock: Clock, tenant: str) -> Bench:
    return Bench(store, clock, tenant)


@pytest.fixture
def orders(store: Store, tenant: str, request: pytest.FixtureRequest) -> Orders:
    """A table of an app's own beside the queue's."""
    on_dynamodb = isinstance(store, DynamoStore)
    return Orders(store, tenant, request.getfixturevalue("engine_client") if on_dynamodb else None)


@pytest.fixture
def memory_bench(memory_store: MemoryStore, clock: Clock, tenant: str) -> Bench:
    """The same on the store in memory alone: for what does not reach the store."""
    return Bench(memory_store, clock, tenant)
