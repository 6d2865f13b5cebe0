"""A delivery: the block must be left with an ack, and a lost claim changes nothing."""

from __future__ import annotations

import pytest

from millrace.client import (
    ClaimLost,
    Client,
    StateConflict,
)
from tests.pull.virtual_time import VirtualTime


def test_a_delivery_goes_on_with_the_handle_of_its_extended_claim(client: Client, time: VirtualTime) -> None:
    """So that an ack whose answer was lost is recognised for as long as the claim is held."""
    client.enqueue("Forgetful", 1)
    (job,) = client.dequeue("Forgetful", lease_ms=5_000)
    until = job.extend(60_000)
    assert job.message.lease_until == until
    time.forward(30_000)
    job.ack()
    job.ack()


def test_a_stale_claim_names_the_current_version(client: Client, time: VirtualTime) -> None:
    client.enqueue("Jobs", 1)
    (stale,) = client.dequeue("Jobs", lease_ms=1_000)
    time.forward(2_000)
    (newer,) = client.dequeue("Jobs")
    for act in (stale.ack, stale.nack, stale.release, stale.extend, stale.read_state):
        with pytest.raises(ClaimLost) as refused:
            act()
        assert refused.value.current_version == newer.message.version
    newer.write_state("a")
    newer.state_version = 0
    with pytest.raises(StateConflict) as conflict:
        newer.write_state("b")
    assert conflict.value.current_version == 1


def test_a_block_left_without_an_ack_is_nacked(client: Client, time: VirtualTime) -> None:
    receipt = client.enqueue("Jobs", 1)
    (job,) = client.dequeue("Jobs")
    with job:
        pass
    (attempt,) = client.status("Jobs", receipt.message_id)["history"]
    assert attempt["error_type"] == "LeftWithoutAck"
    time.forward(60_000)
    (job,) = client.dequeue("Jobs")
    with pytest.raises(KeyboardInterrupt), job:
        raise KeyboardInterrupt
    (job,) = client.dequeue("Jobs")
    assert job.message.attempt == 2, "a program that is being ended gives back, and charges nothing"
