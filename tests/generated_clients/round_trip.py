"""Enqueue, dequeue and ack one message, with nothing but what was generated; run in the environment `.venv-clients`."""

from __future__ import annotations

import json
import os

from millrace_client import AuthenticatedClient
from millrace_client.api.claims import ack, dequeue
from millrace_client.api.messages import enqueue
from millrace_client.models import Ack, AckResult, Deliveries, Dequeue, Draft, Problem, Receipt


def main() -> None:
    client = AuthenticatedClient(base_url=os.environ["MILLRACE_URL"], token=os.environ["MILLRACE_TOKEN"])
    with client:
        receipt = enqueue.sync("Jobs", client=client, body=Draft(body={"from": "python"}))
        assert isinstance(receipt, Receipt), receipt
        found = dequeue.sync("Jobs", client=client, body=Dequeue(max_=1, wait_ms=5_000))
        assert isinstance(found, Deliveries), found
        (delivery,) = found.messages
        acked = ack.sync("Jobs", client=client, body=Ack(claim=delivery.claim))
        assert isinstance(acked, AckResult), acked
        refused = ack.sync("Jobs", client=client, body=Ack(claim="c1.unsealed.q83vEjRWeJCrze8SNFZ4kA"))
        assert isinstance(refused, Problem), refused
    print(
        json.dumps(
            {"enqueued": receipt.message_id, "acked": acked.message_id, "body": delivery.body, "refused": refused.code}
        )
    )


main()
