"""Each finding about liveness with its mend taken out: a named check of the simulation has to notice.

The findings are numbered as in the table of tests/README.md. A check is a test of this folder, run on the mutant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

import millrace.aws.blobs
import millrace.engine.claim
import millrace.engine.laps
import millrace.engine.poll
import millrace.pull.claim_handles
import millrace.pull.dequeue
import millrace.worker.slots
import millrace.worker.sweeper
import millrace.worker.targets.plan
import millrace.worker.wakeup
from millrace.model.queue_spec import Ordering
from millrace.pull.claim_handles import ClaimHandle, Handles
from tests.performance.simulation import test_deployment, test_pull
from tests.performance.simulation.deployment import beside_a_sweep
from tests.performance.simulation.scenarios import (
    Beside,
    World,
    a_silent_shard,
    blocked_keys,
    live_claims,
    longest_wait_ms,
    world,
)

Patch = pytest.MonkeyPatch
SMALL_SCAN, SMALL_PAGE = 100, 10


@dataclass(frozen=True)
class Mutant:
    finding: int
    patch: Callable[[Patch], None]
    check: Callable[[Patch], None]  #: raises AssertionError where it notices


def _in_world(check: Callable[[World], None]) -> Callable[[Patch], None]:
    def run(_patch: Patch) -> None:
        with world(seed=7) as one:
            check(one)

    return run


def _starts_within_a_second(beside: Beside) -> Callable[[Patch], None]:
    def run(_patch: Patch) -> None:
        assert longest_wait_ms(beside, healthy=3, patience_ms=3_000) < 1_000

    return run


def _every_failure_is_an_outage(patch: Patch) -> None:
    patch.setattr(millrace.worker.targets.plan, "Unavailable", Exception)


def _a_silent_shard_ends_the_claim(patch: Patch) -> None:
    """What was claimed from other shards before is forgotten, and runs out."""
    patch.setattr(millrace.engine.claim, "StoreUnavailable", type("Nothing", (Exception,), {}))


def _a_poll_of_keys_gives_up(patch: Patch) -> None:
    """Short pages, a random start each time, and nothing said of what was not seen."""
    lap = millrace.engine.laps.Lap
    pages = lap.pages

    def from_anywhere(self: Any) -> Any:
        self._queue.poll_memory.laps.clear()
        yield from pages(self)
        self.came_round = True

    patch.setattr(millrace.engine.laps, "MAX_PAGE", SMALL_PAGE)
    patch.setattr(lap, "pages", from_anywhere)


def _a_403_is_the_stores_fault(patch: Patch) -> None:
    patch.setattr(millrace.aws.blobs.S3Blobs, "_is_lost", lambda *_given: False)


def _answers_are_measured_as_received(patch: Patch) -> None:
    patch.setattr(millrace.pull.dequeue, "encoded_bytes", lambda document: len(document.get("body") or ""))


def _handles_do_not_know_their_lease(patch: Patch) -> None:
    read = Handles.read

    def forgetful(self: Handles, queue: Any, handle: str) -> ClaimHandle:
        held = read(self, queue, handle)
        return replace(held, entry=replace(held.entry, until=0))

    patch.setattr(Handles, "read", forgetful)


def _slots_are_held_for_an_hour(patch: Patch) -> None:
    patch.setattr(millrace.worker.slots, "SLOT_LEASE_MS", 3_600_000)


def _held_entries_hide_what_lies_behind(patch: Patch) -> None:
    """A poll that reaches its bound begins at the head again."""
    from_lane = millrace.engine.poll._from_lane

    def from_the_head(queue: Any, *given: Any) -> Any:
        queue.poll_memory.resume.clear()
        return from_lane(queue, *given)

    patch.setattr(millrace.engine.poll, "SCAN_LIMIT", SMALL_SCAN)
    patch.setattr(millrace.engine.poll, "HELD_WORTH_REMEMBERING", 1 << 30)
    patch.setattr(millrace.engine.poll, "_from_lane", from_the_head)


def _a_sweep_begins_at_the_same_end(patch: Patch) -> None:
    patch.setattr(millrace.worker.sweeper, "_position", lambda _drainer, _name: "")


def _the_stream_drains_by_itself(patch: Patch) -> None:
    patch.setattr(millrace.worker.wakeup, "_unserved", lambda _drainer, requests: requests)


def _sweeps_come_round(patch: Patch) -> None:
    assert beside_a_sweep(200, patch, box_ms=400).rounds <= 5


MUTANTS: dict[str, Mutant] = {
    "every failure is an outage": Mutant(
        0,
        _every_failure_is_an_outage,
        _in_world(test_deployment.test_messages_that_always_fail_keep_no_good_one_waiting),
    ),
    "a silent shard ends the claim": Mutant(
        1,
        _a_silent_shard_ends_the_claim,
        _starts_within_a_second(Beside("a silent shard", a_silent_shard, shards=4, count=40)),
    ),
    "a poll of keys gives up": Mutant(
        2,
        _a_poll_of_keys_gives_up,
        _starts_within_a_second(Beside("keys that back off", blocked_keys, Ordering.PER_KEY, count=1_600)),
    ),
    "a 403 is the store's fault": Mutant(
        3,
        _a_403_is_the_stores_fault,
        _in_world(test_pull.test_a_lost_body_is_a_dead_letter_and_hides_no_other_message),
    ),
    "answers are measured as received": Mutant(
        4,
        _answers_are_measured_as_received,
        _in_world(test_pull.test_every_message_is_handed_out_in_answers_that_lambda_returns),
    ),
    "handles do not know their lease": Mutant(
        5,
        _handles_do_not_know_their_lease,
        _in_world(test_pull.test_an_ack_whose_answer_was_lost_is_its_own_when_it_is_repeated),
    ),
    "slots are held for an hour": Mutant(
        6,
        _slots_are_held_for_an_hour,
        _in_world(test_deployment.test_what_a_killed_worker_held_runs_again_and_its_place_is_free),
    ),
    "held entries hide what lies behind": Mutant(
        7,
        _held_entries_hide_what_lies_behind,
        _starts_within_a_second(Beside("live claims", live_claims, count=2 * SMALL_SCAN)),
    ),
    "a sweep begins at the same end": Mutant(8, _a_sweep_begins_at_the_same_end, _sweeps_come_round),
    "the stream drains by itself": Mutant(
        10,
        _the_stream_drains_by_itself,
        _in_world(test_deployment.test_a_queue_that_drains_for_a_minute_delays_no_other),
    ),
}
