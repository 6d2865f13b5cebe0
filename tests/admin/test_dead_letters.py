"""Dead letters for operators: listed by filter, shown, downloaded, replayed once for a key, purged, counted."""

from __future__ import annotations

from millrace.admin.dead_letters import SHOWN_BODY
from millrace.admin.service import AdminService
from millrace.engine.claim import body_of, claim
from tests.admin.calling import Caller, bury
from tests.conftest import Clock


def test_dead_letters_are_listed_by_filter_and_purged(call: Caller, service: AdminService, clock: Clock) -> None:
    queue = service.queue(call.tenant, "Jobs")
    step = lambda: clock.forward(1_000)  # noqa: E731
    bury(queue, 2, error="no route to host", project="billing", correlation_id="corr-2", step=step)
    bury(queue, 3, error="bad payload", step=step)
    for query, count in (
        ("", 5),
        ("error=NO%20ROUTE", 2),
        ("project=billing", 2),
        ("correlation_id=corr-2", 2),
        ("reason=rejected", 5),
        ("reason=expired", 0),
        ("failed_from=2027-01-15T08:00:02Z", 3),
        ("failed_before=2027-01-15T08:00:01Z", 1),
    ):
        assert len(call.ok("GET", "/admin/queues/Jobs/dead-letters", query=query)["dead_letters"]) == count, query
    dead_letter = call.ok("GET", "/admin/queues/Jobs/dead-letters", query="limit=1")["dead_letters"][0]
    whole = call.ok("GET", f"/admin/queues/Jobs/dead-letters/{dead_letter['id']}")
    assert whole["history"][0]["error"] == "bad payload"
    assert call.ok("DELETE", f"/admin/queues/Jobs/dead-letters/{dead_letter['id']}") == {"ok": True}
    assert call("GET", f"/admin/queues/Jobs/dead-letters/{dead_letter['id']}").status == 404
    assert call.ok("GET", "/admin/queues/Jobs")["dead_letters"] == 4


def test_a_body_is_downloaded_byte_for_byte(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    body = bytes(range(256)) * 4 + b"<script>"
    (dead_letter,) = bury(queue, 1, body=body, content_type="text/html")
    path = f"/admin/queues/Jobs/dead-letters/{dead_letter.sk.replace('#', '.')}/body"
    got = call("GET", path)
    assert (got.status, got.content, got.headers["Content-Type"]) == (200, body, "text/html")
    assert got.headers["Content-Disposition"] == "attachment"
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    part = call("GET", path, headers={"range": "bytes=10-19"})
    assert (part.status, part.content) == (206, body[10:20])


def test_dry_run_counts_and_samples_and_changes_nothing(call: Caller, service: AdminService, clock: Clock) -> None:
    queue = service.queue(call.tenant, "Jobs")
    bury(queue, 12, error="bad gateway", step=lambda: clock.forward(1))
    bury(queue, 2, error="other", step=lambda: clock.forward(1))
    found = call.ok("POST", "/admin/queues/Jobs/dry-run", {"filter": {"error": "gateway"}})
    assert (found["count"], found["exact"], len(found["sample"])) == (12, True, 10)
    assert found["by_error"] == {"ValueError": 12}
    assert call.ok("GET", "/admin/queues/Jobs")["depth"] == 0


def test_a_dead_letter_is_replayed_once_for_a_key(call: Caller, service: AdminService) -> None:
    queue = service.queue(call.tenant, "Jobs")
    (dead_letter,) = bury(queue, 1, body=b'"again"', correlation_id="corr")
    path = f"/admin/queues/Jobs/dead-letters/{dead_letter.sk.replace('#', '.')}"
    answers = [call.ok("POST", f"{path}/replay", headers={"Idempotency-Key": "j"}) for _ in range(3)]
    assert len({answer["new_message_id"] for answer in answers}) == 1
    (again,) = claim(queue, owner="w", limit=5).claims
    assert (again.message.origin, again.entry.correlation_id) == (dead_letter.message.id, "corr")
    assert body_of(queue, again) == b'"again"'


def test_a_large_body_is_left_out_and_downloaded(call: Caller, service: AdminService) -> None:
    (dead_letter,) = bury(service.queue(call.tenant, "Jobs"), 1, body=b"x" * (SHOWN_BODY + 1))
    path = f"/admin/queues/Jobs/dead-letters/{dead_letter.sk.replace('#', '.')}"
    shown = call.ok("GET", path)
    assert (shown["body_omitted"], "body" in shown) == (True, False)
    assert len(call("GET", f"{path}/body").content) == SHOWN_BODY + 1
