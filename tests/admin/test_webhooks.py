"""The webhooks as operators see them."""

from __future__ import annotations

import pytest

from millrace.admin.service import AdminService
from millrace.definitions import Definitions
from millrace.definitions.language.compiler import compile_files
from millrace.model.webhook_problems import FORGOTTEN_MS, WebhookProblem
from tests.admin.calling import Caller
from tests.conftest import Clock

SOURCE = b"""app Shop {
  queue Orders { message_type { payload: json }  drained_by: api }
  webhook Shopfront {
    queue: Orders
    provider: github
    secret: "env:SHOPFRONT_SIGNING_KEY"
    secret: "ssm:/shop/front"
  }
  webhook Ping {
    verify: none
    message_type { payload: json }
    map_to: command Shop.Ping
  }
  webhook Own { queue: Orders  verify_hmac { header: "X-Own"  secret_env: "OWN_KEY" } }
}
"""


_TENANTS_OWN = {"source": "env", "name": "TENANTS_KEY", "valid_from": None, "valid_until": None}


@pytest.fixture
def shop(service: AdminService) -> AdminService:
    compiled = compile_files([("shop.millrace", SOURCE)])
    assert compiled.definitions is not None, compiled.findings
    service.definitions = Definitions(compiled.definitions)
    return service


def test_each_is_listed_with_its_way_in_and_out(call: Caller, shop: AdminService) -> None:
    shop.default_tenant = call.tenant
    found = {hook["name"]: hook for hook in call.ok("GET", "/admin/webhooks")["webhooks"]}
    assert list(found) == ["Own", "Ping", "Shopfront"]
    assert found["Shopfront"] == {
        "name": "Shopfront",
        "app": "Shop",
        "path": "/hook/Shopfront",
        "queue": "Orders",
        "command": None,
        "verified_by": "github",
        "secrets": ["SHOPFRONT_SIGNING_KEY", "ssm:/shop/front"],
        "problem": None,
    }
    assert (found["Ping"]["verified_by"], found["Ping"]["command"]) == ("none", "Shop.Ping")
    assert (found["Own"]["verified_by"], found["Own"]["secrets"]) == ("hmac", ["OWN_KEY"])
    shop.default_tenant = "another"
    assert call.ok("GET", "/admin/webhooks")["webhooks"] == [], "a tenant that is not declared has none"
    shop.definitions._tenants[call.tenant] = {"Own": [_TENANTS_OWN]}
    (own,) = call.ok("GET", "/admin/webhooks")["webhooks"]
    assert (own["path"], own["secrets"]) == (f"/hook/{call.tenant}/Own", ["TENANTS_KEY"])


def test_one_that_cannot_verify_says_why_for_an_hour(call: Caller, shop: AdminService, clock: Clock) -> None:
    shop.default_tenant = call.tenant
    now, store = clock(), shop.runtime.store
    store.put_webhook_problem(WebhookProblem("Shopfront", "SHOPFRONT_SIGNING_KEY is not set", now - 5_000, now))

    def problem() -> object:
        return next(hook for hook in call.ok("GET", "/admin/webhooks")["webhooks"] if hook["name"] == "Shopfront")[
            "problem"
        ]

    assert problem() == {
        "says": "SHOPFRONT_SIGNING_KEY is not set",
        "since": "2027-01-15T07:59:55.000Z",
        "last": "2027-01-15T08:00:00.000Z",
    }
    clock.forward(FORGOTTEN_MS)
    assert problem() is None
    store.delete_webhook_problem("Shopfront")  # one table serves every test, and this item has no tenant
