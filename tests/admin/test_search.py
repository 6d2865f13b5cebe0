"""Search: by message id, dead letter id and correlation id, within one tenant."""

from __future__ import annotations

from millrace.admin.search import search
from millrace.admin.service import AdminService
from millrace.definitions import Definitions
from millrace.definitions.language.compiler import compile_files
from millrace.engine.claim import claim
from millrace.engine.enqueue import enqueue
from millrace.engine.finish import ack
from millrace.model.message import Draft
from tests.admin.calling import Caller, bury


def test_search_finds_by_message_dead_letter_and_correlation_id(call: Caller, service: AdminService) -> None:
    queue, other = service.queue(call.tenant, "Jobs"), service.queue(call.tenant, "Wide")
    (dead_letter,) = bury(queue, 1, correlation_id="corr-9")
    waiting = enqueue(other, Draft(b"{}", correlation_id="corr-9", not_before=service.runtime.clock() + 60_000))

    def found(q: str) -> list[tuple[str, str]]:
        answer = call.ok("GET", "/admin/search", query=f"q={q}")
        assert answer["complete"] is True
        return sorted((item["queue"], item["status"]) for item in answer["found"])

    assert found(dead_letter.message.id) == found(dead_letter.sk.replace("#", ".")) == [("Jobs", "dead")]
    assert found("corr-9") == [("Jobs", "dead"), ("Wide", "scheduled")]
    assert found(waiting.message_id) == [("Wide", "scheduled")]
    assert found("nothing-of-that-name") == []


def test_search_finds_keys_and_says_by_what(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Keyed")
    bury(queue, 1, key="customer-7")
    waiting = enqueue(queue, Draft(b"{}", key="customer-7", idempotency_key="order-1")).message_id
    done = enqueue(queue, Draft(b"{}", key="customer-8", idempotency_key="order-2", correlation_id="corr-8")).message_id
    ack(queue, [held.entry for held in claim(queue, owner="w", limit=9).claims if held.message.id == done])

    def found(q: str) -> list[tuple[str, str]]:
        answer = call.ok("GET", "/admin/search", query=f"q={q}")
        return sorted((item["status"], item["matched"]) for item in answer["found"])

    assert found("customer-7") == [("dead", "key"), ("in_flight", "key")]
    assert found("order-1") == [("in_flight", "idempotency_key")]
    assert found("order-2") == [("done", "idempotency_key")], "whatever its status"
    assert found("corr-8") == [("done", "correlation_id")], "among the last that are done"
    assert found(waiting) == [("in_flight", "id")]


def test_another_tenants_messages_are_not_to_be_found(call: Caller, service: AdminService) -> None:
    (dead_letter,) = bury(service.queue(f"{call.tenant}-other", "Jobs"), 1)
    assert call.ok("GET", "/admin/search", query=f"q={dead_letter.message.id}")["found"] == []
    dead_letter_id = dead_letter.sk.replace("#", ".")
    assert call("GET", f"/admin/queues/Jobs/dead-letters/{dead_letter_id}").status == 404
    got = call("GET", "/admin/queues", query=f"tenant_id={call.tenant}-other")
    assert (got.status, got.json["code"]) == (403, "forbidden")


def test_search_finds_the_key_of_a_webhooks_message_and_only_in_queues_within_reach(
    call: Caller, service: AdminService
) -> None:
    source = "app T { queue Jobs { drained_by: api } webhook Hook { queue: Jobs verify: none } }"
    compiled = compile_files([("t.millrace", source.encode())]).definitions
    assert compiled is not None
    service.definitions = Definitions(compiled)
    queue = service.queue(call.tenant, "Jobs")
    sent = enqueue(queue, Draft(b"{}", idempotency_key="evt_1", source="webhook:Hook")).message_id
    ours = enqueue(queue, Draft(b"{}", idempotency_key="evt_1", source="token:x")).message_id
    found = search(service, call.tenant, "evt_1").items
    assert {(item["message_id"], item["matched"]) for item in found} == {
        (sent, "idempotency_key"),
        (ours, "idempotency_key"),
    }
    for wanted in ("evt_1", sent):
        assert search(service, call.tenant, wanted, lambda name: name != "Jobs").items == []
