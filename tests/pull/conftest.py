"""The pull API on each store in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from millrace.engine.queue import Runtime
from millrace.http.routes import Api
from millrace.model.tokens import Tokens
from millrace.openapi import V1_ROUTES
from millrace.pull.dispatcher import SHARED, Dispatcher
from millrace.pull.service import PullService
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.interface import Store
from millrace.stores.memory.queue import MemoryBlobs
from millrace.stores.memory.uploads import MemoryUploads
from tests.pull.calling import DEFINITIONS, Caller
from tests.pull.stack import Stack, running


@pytest.fixture
def service(store: Store, tokens: Tokens, clock: Callable[[], int]) -> PullService:
    blobs = MemoryBlobs()
    runtime = Runtime(store, blobs, clock=clock, chance=lambda: 0.5, uploads=MemoryUploads(blobs, clock))
    return PullService(runtime, DEFINITIONS, tokens, Dispatcher(schedule=SHARED))


@pytest.fixture
def call(service: PullService, tenant: str) -> Caller:
    return Caller(Api(service, V1_ROUTES), tenant)


@pytest.fixture(scope="session")
def stack(engine_url: str, tables: TableNames, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The functions over HTTP, once a run."""
    with running(engine_url, tables, tmp_path_factory.mktemp("stack")) as started:
        yield started
