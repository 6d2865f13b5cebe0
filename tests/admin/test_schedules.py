"""The schedules as operators see them."""

from __future__ import annotations

import pytest

from millrace.admin.service import AdminService
from millrace.admission.schedules import enqueue_due
from millrace.definitions import Definitions
from millrace.engine.status import status
from tests.admin.calling import Caller
from tests.conftest import Clock
from tests.worker.definitions import compiled

SOURCE = """
queue Reports { message_type { report: string }  drained_by: api }
tenant acme { }
schedule Nightly { cron: "0 3 * * *"  timezone: "Europe/Berlin"  queue: Reports  message: {"report": "n"} }
schedule Theirs { cron: "* * * * *"  queue: Reports  tenant: "acme"  message: {"report": "t"} }
"""


@pytest.fixture
def shop(service: AdminService, call: Caller) -> AdminService:
    service.definitions = compiled(SOURCE)
    service.default_tenant = call.tenant
    return service


def swept(shop: AdminService, definitions: Definitions | None = None) -> None:
    enqueue_due(shop.runtime, definitions or shop.definitions, shop.default_tenant)


def test_a_schedule_is_listed_with_its_last_run_and_its_next(call: Caller, shop: AdminService, clock: Clock) -> None:
    (shown,) = call.ok("GET", "/admin/schedules")["schedules"]
    assert (shown["name"], shown["cron"], shown["catch_up"]) == ("Nightly", "0 3 * * *", "latest")
    assert (shown["last_run"], shown["next_run"]) == (None, None)
    swept(shop)
    (shown,) = call.ok("GET", "/admin/schedules")["schedules"]
    assert (shown["last_run"], shown["next_run"]) == (None, "2027-01-16T02:00:00.000Z")
    clock.forward(86_400_000)
    swept(shop)
    (shown,) = call.ok("GET", "/admin/schedules")["schedules"]
    assert shown["last_run"]["tick"] == "2027-01-16T02:00:00.000Z"
    assert shown["next_run"] == "2027-01-17T02:00:00.000Z"
    found = status(shop.queue(call.tenant, "Reports"), shown["last_run"]["message_id"])
    assert found.status.value == "ready"


def test_a_tenant_sees_its_own(call: Caller, shop: AdminService) -> None:
    shop.default_tenant = "another"
    assert call.ok("GET", "/admin/schedules")["schedules"] == []


def test_a_token_sees_the_schedules_of_the_queues_that_it_reaches(call: Caller, shop: AdminService) -> None:
    assert call.principal is not None
    call.principal["queues"] = "Others"
    assert call.ok("GET", "/admin/schedules")["schedules"] == []
    call.principal["queues"] = "Reports"
    assert [shown["name"] for shown in call.ok("GET", "/admin/schedules")["schedules"]] == ["Nightly"]
    call.principal["scopes"] = "produce"
    assert call("GET", "/admin/schedules").status == 403
