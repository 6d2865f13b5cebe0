"""A clock, a store of secrets that counts its calls, and a source of secrets on both."""

from __future__ import annotations

import pytest

from millrace.signatures import SecretSource
from tests.conftest import Clock
from tests.signatures.cases import NOW
from tests.signatures.source import HIDDEN, Store


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def store() -> Store:
    return Store(hook=HIDDEN)


@pytest.fixture
def source(clock: Clock, store: Store) -> SecretSource:
    return SecretSource(clock, environ={}, fetchers={"secretsmanager": store})
