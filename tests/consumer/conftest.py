"""The pull API on each store in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from millrace.api.dispatcher import SHARED, Dispatcher
from millrace.api.pull import ROUTES
from millrace.api.routes import Api
from millrace.api.service import Service
from millrace.queue import Runtime
from millrace.store import Store
from millrace.stores.dynamodb import DynamoStore, TableNames
from millrace.stores.dynamodb.tokens import DynamoTokens
from millrace.stores.memory import MemoryBlobs
from millrace.stores.token_memory import MemoryTokens
from millrace.tokens import Tokens
from tests.consumer.calling import DEFINITIONS, Caller
from tests.consumer.stack import Stack, running


@pytest.fixture
def tokens(store: Store) -> Tokens:
    if isinstance(store, DynamoStore):
        calls = store._calls
        return DynamoTokens(calls.client, store._names.queue)
    return MemoryTokens()


@pytest.fixture
def service(store: Store, tokens: Tokens, clock: Callable[[], int]) -> Service:
    runtime = Runtime(store, MemoryBlobs(), clock=clock, chance=lambda: 0.5)
    return Service(runtime, DEFINITIONS, tokens, Dispatcher(pace=SHARED))


@pytest.fixture
def call(service: Service, tenant: str) -> Caller:
    return Caller(Api(service, ROUTES), tenant)


@pytest.fixture(scope="session")
def stack(engine_url: str, tables: TableNames, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The functions over HTTP, once a run."""
    with running(engine_url, tables, tmp_path_factory.mktemp("stack")) as started:
        yield started
