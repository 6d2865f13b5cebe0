"""Uploads and downloads over the API: whose they are, how long they live, and what a message makes of them."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from millrace.engine.dead_letters import list_dead_letters, replay
from millrace.engine.status import status
from millrace.model.clock import DAY
from millrace.model.uploads import STAGE
from millrace.pull.service import PullService
from millrace.stores.memory.uploads import ADDRESS, MemoryUploads
from tests.conftest import Clock
from tests.pull.calling import Caller

FILES = "/v1/queues/Files"
DATA = bytes(range(256)) * 30_000  # 7.7 MB: more than any request, and than what functions read whole


def named(data: bytes) -> dict[str, Any]:
    return {"sha256": sha256(data).hexdigest(), "size": len(data)}


def bucket(service: PullService) -> MemoryUploads:
    found = service.runtime.uploads._maybe
    assert isinstance(found, MemoryUploads)
    return found


def upload(call: Caller, service: PullService, data: bytes = DATA, path: str = FILES, **asked: Any) -> None:
    ticket = call("POST", f"{path}/uploads", {**named(data), **asked}).json
    assert not ticket["uploaded"]
    bucket(service).put(ticket["url"], data)


def send(call: Caller, data: bytes = DATA, path: str = FILES, **options: Any) -> Any:
    return call("POST", f"{path}/messages", {"body_upload": named(data), **options})


def test_an_upload_becomes_a_message_that_a_consumer_downloads(call: Caller, service: PullService) -> None:
    upload(call, service)
    accepted = send(call, content_type="video/mp4")
    assert accepted.status == 202
    (held,) = call.dequeue("Files")
    assert (held["body_omitted"], held["size"], held["content_type"]) == (True, len(DATA), "video/mp4")
    link = call("GET", f"{FILES}/download", headers={"x-millrace-claim": held["claim"]}).json
    assert (link["size"], link["digest"]) == (len(DATA), sha256(DATA).hexdigest()[:32])
    message = status(service.queue(call.tenant, "Files"), accepted.json["message_id"]).message
    assert link["url"] == f"{ADDRESS}{message.body.blob}"
    assert service.runtime.bodies.read(message) == DATA


def test_the_parts_of_a_large_body_are_read_where_it_lies(
    call: Caller, service: PullService, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(call, service)
    message_id = send(call).json["message_id"]
    (held,) = call.dequeue("Files")
    monkeypatch.setattr(service.runtime.bodies, "read", lambda _: pytest.fail("was read whole"))
    headers = {"x-millrace-claim": held["claim"], "range": "bytes=5-9"}
    for path in (f"{FILES}/messages/{message_id}/body", f"{FILES}/input"):
        got = call("GET", path, headers=headers)
        assert (got.status, got.content) == (206, DATA[5:10])
        assert got.headers["Content-Range"] == f"bytes 5-9/{len(DATA)}"


def test_a_body_that_is_no_blob_of_its_own_has_no_link(call: Caller) -> None:
    call.enqueue({"n": 1}, "Files")
    (held,) = call.dequeue("Files")
    link = call("GET", f"{FILES}/download", headers={"x-millrace-claim": held["claim"]}).json
    assert (link["url"], link["digest"], link["expires_at"]) == (None, None, None)


def test_a_download_needs_a_live_claim(call: Caller, service: PullService, clock: Clock) -> None:
    upload(call, service)
    send(call)
    (held,) = call.dequeue("Files")
    clock.forward(31_000)
    call.dequeue("Files")
    got = call("GET", f"{FILES}/download", headers={"x-millrace-claim": held["claim"]})
    assert (got.status, got.json["code"]) == (409, "stale_claim")
    assert call("GET", f"{FILES}/download").json["code"] == "invalid_request"


@pytest.mark.parametrize("stranger", ["token", "tenant", "queue"])
def test_nobody_else_can_name_an_upload(call: Caller, service: PullService, stranger: str) -> None:
    upload(call, service)
    assert call.principal is not None
    path = FILES
    if stranger == "token":
        call.principal["token_id"] = "another"
    elif stranger == "tenant":
        call.principal["tenants"] = f"{call.tenant}-b"
    else:
        upload(call, service, DATA[:100], "/v1/queues/Jobs")  # Jobs takes uploads too, its own
        path, data = "/v1/queues/Wide", DATA[:100]
        assert send(call, data, path).json["code"] == "upload_missing"
        return
    refused = send(call, path=path)
    assert (refused.status, refused.json["code"]) == (404, "upload_missing")
    assert not call("POST", f"{FILES}/uploads", named(DATA)).json["uploaded"], "nor learn that it is there"


def test_an_upload_that_was_never_transferred_or_is_too_old_is_missing(
    call: Caller, service: PullService, clock: Clock
) -> None:
    assert send(call).json["code"] == "upload_missing"
    upload(call, service)
    clock.forward(DAY)
    assert send(call).json["code"] == "upload_missing"
    upload(call, service)
    assert send(call).status == 202


def test_a_message_whose_upload_is_missing_takes_no_room(call: Caller) -> None:
    refused = [send(call, b"x", "/v1/queues/Small").json["code"] for _ in range(4)]
    assert refused == ["upload_missing"] * 4
    assert [call.enqueue(1, "Small")["status"], call.enqueue(2, "Small")["status"]] == ["ready", "ready"]


def test_other_bytes_than_were_named_are_not_taken(call: Caller, service: PullService) -> None:
    ticket = call("POST", f"{FILES}/uploads", named(DATA)).json
    with pytest.raises(ValueError, match="checksum"):
        bucket(service).put(ticket["url"], DATA[:-1] + b"!")
    upload(call, service)
    longer = {**named(DATA), "size": len(DATA) + 1}
    assert call("POST", f"{FILES}/messages", {"body_upload": longer}).json["code"] == "upload_missing"


def test_what_happens_to_the_upload_after_the_commit_is_nothing_to_the_message(
    call: Caller, service: PullService
) -> None:
    upload(call, service)
    message_id = send(call).json["message_id"]
    objects: dict[str, bytes] = bucket(service)._blobs.objects
    (staged,) = [place for place in objects if place.startswith(f"{STAGE}/")]
    objects[staged] = b"other bytes"
    message = status(service.queue(call.tenant, "Files"), message_id).message
    assert service.runtime.bodies.read(message) == DATA
    assert not message.body.blob.startswith(STAGE)


def test_a_repeat_transfers_nothing_twice(call: Caller, service: PullService, clock: Clock) -> None:
    upload(call, service, idempotency_key="k")
    assert call("POST", f"{FILES}/uploads", named(DATA)).json["uploaded"], "it lies there"
    first = send(call, idempotency_key="k")
    clock.forward(DAY - 1)
    bucket(service)._blobs.objects = {
        place: data for place, data in bucket(service)._blobs.objects.items() if not place.startswith(STAGE)
    }
    assert not call("POST", f"{FILES}/uploads", named(DATA)).json["uploaded"]
    again = call("POST", f"{FILES}/uploads", {**named(DATA), "idempotency_key": "k"}).json
    assert (again["uploaded"], again["url"], again["headers"]) == (True, None, {})
    repeated = send(call, idempotency_key="k")
    assert (repeated.status, repeated.json["duplicate"]) == (202, True)
    assert repeated.json["message_id"] == first.json["message_id"]
    assert bucket(service).transfers == 1


def test_a_key_of_another_body_is_refused_before_anything_is_transferred(call: Caller, service: PullService) -> None:
    upload(call, service)
    first = send(call, idempotency_key="k")
    other = DATA[1:]
    refused = call("POST", f"{FILES}/uploads", {**named(other), "idempotency_key": "k"})
    assert (refused.json["code"], refused.json["message_id"]) == ("idempotency_conflict", first.json["message_id"])
    upload(call, service, other)
    assert send(call, other, idempotency_key="k").json["code"] == "idempotency_conflict"


def test_the_same_small_body_by_request_and_by_upload_is_a_repeat(call: Caller, service: PullService) -> None:
    call("POST", f"{FILES}/messages/raw", content=b"small", headers={"idempotency-key": "k"})
    ticket = call("POST", f"{FILES}/uploads", {**named(b"small"), "idempotency_key": "k"}).json
    assert ticket["uploaded"]
    assert send(call, b"small", idempotency_key="k").json["duplicate"]


def test_a_queue_takes_uploads_up_to_its_own_limit(call: Caller) -> None:
    refused = call("POST", "/v1/queues/Small/uploads", named(b"x" * 101))
    assert (refused.status, refused.json["code"], refused.json["max_bytes"]) == (413, "body_too_large", 100)
    assert send(call, b"x" * 101, "/v1/queues/Small").json["code"] == "body_too_large"
    over = {"sha256": "0" * 64, "size": 104_857_601}
    assert call("POST", f"{FILES}/uploads", over).json["code"] == "invalid_field"


def test_an_upload_is_a_message_of_its_own_request(call: Caller) -> None:
    item = call("POST", f"{FILES}/messages/batch", {"messages": [{"body_upload": named(DATA)}]}).json["items"][0]
    assert (item["http_status"], item["problem"]["field"]) == (400, "messages[0].body_upload")
    both = call("POST", f"{FILES}/messages", {"body": 1, "body_upload": named(DATA)})
    assert both.json["field"] == "body_upload"


def test_a_large_dead_letter_is_replayed_without_being_read(
    call: Caller, service: PullService, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload(call, service)
    send(call)
    (held,) = call.dequeue("Files")
    call("POST", f"{FILES}/nack", {"claim": held["claim"], "error": "no", "reject": True})
    queue = service.queue(call.tenant, "Files")
    (dead,) = list_dead_letters(queue).items
    with monkeypatch.context() as patch:
        patch.setattr(service.runtime.bodies, "read", lambda _: pytest.fail("was read whole"))
        receipt = replay(queue, dead, "job")
    again = status(queue, receipt.message_id).message
    assert again.body.blob != dead.message.body.blob
    assert service.runtime.bodies.read(again) == DATA
