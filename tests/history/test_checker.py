"""The checker finds every broken promise in a history, and nothing in an honest one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millrace.history.checker import Verdict, check_history
from millrace.history.log import HistoryEvent
from millrace.history.records import Fault, HistoryRecord
from millrace.model.queue_spec import Ordering


def record(
    at: int, event: str, message: str = "m", version: int = 1, owner: str = "w", sequence: int = 0
) -> HistoryRecord:
    return HistoryRecord(at, HistoryEvent(event), message, version, owner, "Q", "k", sequence)


def life(start: int, message: str = "m", sequence: int = 0, accepted: int = 0) -> list[HistoryRecord]:
    return [
        record(accepted, "accepted", message, 0, sequence=sequence),
        record(start, "started", message),
        record(start + 5, "ending", message),
        record(start + 9, "done", message),
    ]


def faults(verdict: Verdict) -> set[Fault]:
    return {finding.fault for finding in verdict.findings}


def test_an_honest_history_is_sound() -> None:
    history = [
        record(0, "accepted", version=0),
        record(10, "started", version=1, owner="a"),
        record(40, "started", version=2, owner="b"),
        record(41, "stale", version=1, owner="a"),
        record(42, "ending", version=2, owner="b"),
        record(43, "done", version=2, owner="b"),
    ]

    verdict = check_history(history, statuses={"m": "done"})

    assert verdict.sound
    assert (verdict.accepted, verdict.done, verdict.dead, verdict.stale) == (1, 1, 0, 1)
    assert (verdict.started, verdict.repeats) == (2, 1)


def test_what_a_holder_asks_again_after_its_ack_is_no_fault() -> None:
    again = [record(30, "done"), record(31, "stale")]

    assert check_history([*life(10), *again], statuses={"m": "done"}).sound


def test_a_run_after_a_failed_one_is_no_duplicate() -> None:
    history = [record(10, "started"), record(12, "failed"), record(20, "started", version=2), *life(30)[2:]]
    released = [record(10, "started"), record(12, "released"), record(20, "started", version=2)]

    assert check_history(history).repeats == check_history(released).repeats == 0


def test_an_id_used_again_after_its_window_is_another_life() -> None:
    first, second = life(10), [replace(one, nonce="n2", at=one.at + 100) for one in life(10)]

    assert check_history([*first, *second]).sound
    assert faults(check_history([*first, *(replace(one, nonce="") for one in second)])) == {Fault.VERSION_ORDER}


def test_where_the_log_ends_too_early_a_message_is_unfinished_and_not_lost() -> None:
    history = [*life(10)[:2], *life(10, "other"), record(3, "accepted", "new")]

    verdict = check_history(history, complete=False)

    assert verdict.sound
    assert verdict.unfinished == ("m", "new")
    assert faults(check_history(history)) == {Fault.LOST}


def test_a_purged_message_is_not_lost() -> None:
    verdict = check_history([record(0, "accepted"), record(5, "purged", owner="purge by me")])

    assert (verdict.sound, verdict.purged) == (True, 1)


def test_an_ack_whose_sender_was_killed_counts_as_done_by_the_table() -> None:
    history = life(10)[:3]

    assert check_history(history, statuses={"m": "done"}).unanswered == 1
    assert check_history(history, statuses={"m": "done"}).sound
    assert faults(check_history(history, statuses={"m": "unfinished"})) == {Fault.LOST}


@pytest.mark.parametrize(
    ("history", "status", "fault"),
    [
        ([record(0, "accepted")], "unfinished", Fault.LOST),
        ([record(0, "accepted")], "missing", Fault.LOST),
        ([record(0, "accepted"), record(1, "started")], "done", Fault.NEVER_ACKED),
        ([*life(10), record(30, "done", version=1, owner="x")], "done", Fault.ENDED_TWICE),
        ([record(0, "accepted"), record(5, "dead"), record(9, "dead", version=2)], "dead", Fault.ENDED_TWICE),
        ([*life(10), record(30, "dead")], "dead", Fault.DONE_AND_DEAD),
        (life(10), "dead", Fault.DONE_AND_DEAD),
        ([*life(10), record(30, "started", version=2)], "done", Fault.STARTED_AFTER_END),
        ([record(9, "dead"), record(30, "started", version=2)], "dead", Fault.STARTED_AFTER_END),
        ([*life(10), record(12, "started", version=2)], "done", Fault.STALE_ACK_ACCEPTED),
        ([*life(10), record(8, "started", version=1, owner="x")], "done", Fault.VERSION_ORDER),
        ([record(5, "started", version=2), *life(10)], "done", Fault.VERSION_ORDER),
        ([*life(10), record(12, "stale", version=1)], "done", Fault.NEWEST_REFUSED),
    ],
)
def test_a_broken_promise_is_found(history: list[HistoryRecord], status: str, fault: Fault) -> None:
    statuses = {} if status == "missing" else {"m": status}

    assert fault in faults(check_history(history, statuses=statuses))


@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.PER_KEY])
def test_a_start_before_an_earlier_message_ended_is_found(ordering: Ordering) -> None:
    first, second = life(10, "a", 1, accepted=1), life(12, "b", 2, accepted=2)

    assert faults(check_history([*first, *second], ordering=ordering)) == {Fault.OUT_OF_ORDER}
    assert check_history([*first, *second]).sound


def test_a_start_beside_more_earlier_messages_than_its_key_has_places_is_found() -> None:
    lives = [life(10, "a", 1, accepted=1), life(11, "b", 2, accepted=2), life(12, "c", 3, accepted=3)]
    history = [replace(one, places=2) if one.event is HistoryEvent.ACCEPTED else one for all_ in lives for one in all_]

    assert check_history([one for one in history if one.message != "c"], ordering=Ordering.PER_KEY).sound
    (finding,) = check_history(history, ordering=Ordering.PER_KEY).findings
    assert (finding.fault, finding.message) == (Fault.OUT_OF_ORDER, "c")


def test_order_is_judged_by_when_an_ack_was_sent_and_not_among_one_batch() -> None:
    behind_the_ack = [*life(10, "a", 1, accepted=1), *life(15, "b", 2, accepted=2)]
    one_batch = [*life(10, "a", 1, accepted=1), *life(10, "b", 2, accepted=1)]
    third_too_early = [*one_batch, *life(12, "c", 3, accepted=4)]

    assert check_history(behind_the_ack, ordering=Ordering.FIFO).sound
    assert check_history(one_batch, ordering=Ordering.FIFO).sound
    assert faults(check_history(third_too_early, ordering=Ordering.FIFO)) == {Fault.OUT_OF_ORDER}


def test_order_binds_only_what_was_sent_after_the_other_was_accepted() -> None:
    first, second = life(10, "a", 1, accepted=3), life(4, "b", 2, accepted=5)
    concurrent = [*first, *(replace(one, sent=2) for one in second)]
    afterwards = [*first, *(replace(one, sent=4) for one in second)]

    assert check_history(concurrent, ordering=Ordering.FIFO).sound
    assert faults(check_history(afterwards, ordering=Ordering.FIFO)) == {Fault.OUT_OF_ORDER}


def test_a_start_before_an_earlier_one_that_never_ended_is_found() -> None:
    history = [*life(10, "a", 1, accepted=1)[:2], *life(20, "b", 2, accepted=5)]

    assert faults(check_history(history, ordering=Ordering.FIFO, complete=False)) == {Fault.OUT_OF_ORDER}


def test_a_batch_handed_to_one_consumer_is_run_in_its_order_by_it() -> None:
    history = [*life(10, "a", 1, accepted=1), *life(10, "b", 2, accepted=5)]

    assert check_history(history, ordering=Ordering.FIFO).sound


def test_clocks_that_differ_are_not_taken_for_a_broken_order() -> None:
    history = [*life(10, "a", 1, accepted=1), *life(12, "b", 9, accepted=9)]
    versions = [record(10, "started", version=2), record(12, "started", version=1)]

    assert faults(check_history(history, ordering=Ordering.FIFO)) == {Fault.OUT_OF_ORDER}
    assert check_history(history, ordering=Ordering.FIFO, skew_ms=3).sound
    assert check_history(versions, complete=False, skew_ms=3).sound
