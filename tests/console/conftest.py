"""A browser, and the stack that it is pointed at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from infra.local.dynamodb import REGION
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from tests.console.browser import browsing
from tests.console.stack import Stack, serving


@pytest.fixture
def stack(engine_url: str, tables: TableNames, tenant: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    store = DynamoStore(dynamodb_client(endpoint_url=engine_url, region=REGION), tables)
    with serving(store, tenant, monkeypatch) as stack:
        yield stack


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium, started once a file."""
    # Its event loop must end before other files run asyncio.
    with browsing() as browser:
        yield browser


@pytest.fixture
def page(browser: Any, stack: Stack) -> Iterator[Any]:
    """A page that fails the test where the browser complains: a script error, or something that the policy stopped."""
    context = browser.new_context(viewport={"width": 1360, "height": 860}, reduced_motion="reduce")
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.goto(f"{stack.url}/console")
    yield page
    context.close()
    expected = ("status of 403", "status of 401", "status of 404", "net::ERR_FAILED")
    assert [text for text in complaints if not any(known in text for known in expected)] == []
