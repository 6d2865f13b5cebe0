"""What the records of one life of a message add up to."""

from __future__ import annotations

import pytest

from millrace.history.log import HistoryEvent
from millrace.history.records import NEVER, HistoryRecord, MessageLife, shown
from millrace.model.queue_spec import Ordering


def life(*events: tuple[int, str, int]) -> MessageLife:
    """One message's records: when, what, under which version."""
    found = MessageLife("m")
    for at, event, version in events:
        one = HistoryRecord(at, HistoryEvent(event), "m", version, "w", "Q", "k", 7, "t")
        found.of[one.event].append(one)
    return found


ACCEPTED, STARTED, ENDING, DONE = (0, "accepted", 0), (5, "started", 1), (8, "ending", 1), (9, "done", 1)


@pytest.mark.parametrize(
    ("events", "status", "ended_at"),
    [
        ((ACCEPTED,), "unfinished", NEVER),
        ((ACCEPTED, STARTED), "unfinished", NEVER),
        ((ACCEPTED, STARTED, ENDING, DONE), "done", 8),
        ((ACCEPTED, STARTED, ENDING), "done", 8),  # an ack without an answer
        ((ACCEPTED, STARTED, ENDING, (20, "started", 2)), "unfinished", 8),  # it was not: somebody ran it again
        ((ACCEPTED, STARTED, ENDING, (9, "dead", 1)), "dead", 8),
        ((ACCEPTED, (3, "purged", 0)), "purged", 0),
    ],
)
def test_status_and_end(events: tuple[tuple[int, str, int], ...], status: str, ended_at: int) -> None:
    assert (life(*events).status(None), life(*events).ended_at()) == (status, ended_at)


def test_the_table_has_the_last_word_on_a_status() -> None:
    whole = life(ACCEPTED, STARTED, ENDING)
    assert [whole.status({"m": "dead"}), whole.status({})] == ["dead", "missing"]


def test_a_line_is_a_queue_or_a_key_of_it() -> None:
    whole = life(ACCEPTED)
    assert whole.line(Ordering.FIFO) == ("t", "Q", "")
    assert whole.line(Ordering.PER_KEY) == ("t", "Q", "k")
    assert whole.line(Ordering.UNORDERED) is None
    assert life(STARTED).line(Ordering.FIFO) is None


def test_a_run_after_a_lost_one_is_a_repeat() -> None:
    again = (20, "started", 2)
    assert life(ACCEPTED, STARTED, again).repeats() == 1
    assert life(ACCEPTED, STARTED, (9, "failed", 1), again).repeats() == 0


def test_evidence_names_event_version_owner_and_time() -> None:
    assert shown(life(STARTED).starts) == "started version 1 by w at 5"
