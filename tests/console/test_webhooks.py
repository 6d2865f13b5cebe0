"""The console's page of webhooks: the one that cannot verify says what to type."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.definitions import Definitions
from millrace.definitions.language.compiler import compile_files
from millrace.model.clock import system_clock
from millrace.model.webhook_problems import WebhookProblem
from tests.console.stack import MARKUP, Stack
from tests.console.test_console import sign_in

SOURCE = b"""app Shop {
  queue Orders { message_type { payload: json }  drained_by: api }
  webhook Counter { queue: Orders  provider: github  secret_env: "COUNTER_SIGNING_KEY"  tenants: shared }
  webhook Ping { queue: Orders  verify: none  tenants: shared }
  tenant "%s" { }
}
"""


@pytest.fixture
def shop(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
    compiled = compile_files([("shop.millrace", SOURCE % stack.tenant.encode())])
    assert compiled.definitions is not None, compiled.findings
    monkeypatch.setattr(stack.service, "definitions", Definitions(compiled.definitions))
    return stack


def test_a_webhook_without_its_secret_says_so_in_red(page: Any, shop: Stack) -> None:
    says, now = "COUNTER_SIGNING_KEY is not set: millrace secrets set COUNTER_SIGNING_KEY", system_clock()
    store = shop.service.runtime.store
    store.put_webhook_problem(WebhookProblem("Counter", f"{says} {MARKUP}", now - 120_000, now))
    sign_in(page, shop.token)
    page.get_by_role("link", name="Webhooks", exact=True).click()
    page.get_by_role("heading", name="Webhooks").wait_for()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Counter"))
    row.get_by_text(f"{shop.url}/hook/{shop.tenant}/Counter").wait_for()
    problem = row.locator(".bad")
    assert problem.text_content() == f"cannot verify: {says} {MARKUP}"
    row.get_by_role("link", name="Orders").wait_for()
    other = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Ping"))
    other.get_by_text("anybody may call").wait_for()
    store.delete_webhook_problem("Counter")
    page.reload()
    page.get_by_text("no problem seen").wait_for()
