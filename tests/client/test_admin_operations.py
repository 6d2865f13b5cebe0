"""The operators' calls of the client."""

from __future__ import annotations

import pytest

from millrace.client import Client, MessageInUse, ReplayedBefore, ResourceNotFound
from tests.pull.virtual_time import VirtualTime


def test_a_dead_letter_is_replayed_once_unless_asked_for_again(client: Client, time: VirtualTime) -> None:
    client.enqueue("Jobs", 1)
    client.dequeue("Jobs")[0].nack(reject=True)
    (dead_letter,) = client.listed("Jobs", "dead-letters").items
    first = client.replay("Jobs", dead_letter["id"])
    with pytest.raises(ReplayedBefore) as refused:
        client.replay("Jobs", dead_letter["id"])
    assert (refused.value.message_id, refused.value.status) == (first, 409)
    assert client.replay("Jobs", dead_letter["id"], again=True) != first
    time.forward(1_000)
    assert client.dry_run("Jobs", {"reason": "rejected"})["replayed"] == 1
    client.purge("Jobs", dead_letter["id"])


def test_a_message_is_cancelled_unless_somebody_holds_it(client: Client) -> None:
    receipt = client.enqueue("Jobs", 1)
    assert len(client.dequeue("Jobs")) == 1
    with pytest.raises(MessageInUse):
        client.cancel_message("Jobs", receipt.message_id)
    client.break_claim("Jobs", receipt.message_id)
    with pytest.raises(ResourceNotFound):
        client.break_claim("Jobs", receipt.message_id)
    client.cancel_message("Jobs", receipt.message_id)
    assert client.status("Jobs", receipt.message_id)["status"] == "purged"
    assert client.claim("Jobs") == []
    assert client.queue_stats()[0]["depth"] == 0
    actions = [event["action"] for event in client.audit_events({"outcome": "ok"}).items]
    assert sorted(actions) == ["break_claim", "cancel_message"]


def test_jobs_are_started_listed_and_stopped(client: Client) -> None:
    job = client.start_job("Jobs", "replay", {"error": "gate"}, rate=5)
    assert client.jobs("Jobs")[0]["job_id"] == client.jobs()[0]["job_id"] == job["job_id"]
    assert client.cancel_job("Jobs", job["job_id"])["state"] == "cancelling"
    assert client.job("Jobs", job["job_id"])["rate"] == 5
    assert client.start_job("Jobs", "purge_queue")["kind"] == "purge_queue"
    assert client.search("no-such-id") == {"found": [], "complete": True}
