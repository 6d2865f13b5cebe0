"""Dead letters: listed, filtered, paged, replayed once a job, purged."""

from __future__ import annotations

import pytest

from millrace.engine.claim import body_of, claim
from millrace.engine.dead_letters import (
    get_dead_letter,
    list_dead_letters,
    purge_dead_letter,
    replay,
)
from millrace.engine.enqueue import enqueue_all
from millrace.engine.finish import RunFailure, ack, nack
from millrace.engine.inspect import list_claims, list_entries
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status
from millrace.model.errors import InvalidCursor, InvalidField, NotFound
from millrace.model.journal import EFFECTS, effect_root
from millrace.model.message import DeadLetterFilter, DeadLetterReason, Draft
from millrace.model.queue_spec import RetryPolicy
from tests.conftest import Bench
from tests.engine.steps import raising


def kill(bench: Bench, queue: Queue, count: int) -> None:
    enqueue_all(
        queue,
        [
            Draft(b"body %d" % n, project=("a", "b")[n % 2], correlation_id=f"c-{n}", headers={"x-n": str(n)})
            for n in range(count)
        ],
    )
    for held in sorted(claim(queue, owner="w", limit=100).claims, key=lambda c: body_of(queue, c)):
        bench.clock.forward(1_000)
        nack(
            queue,
            held.entry,
            held.message,
            RunFailure("HttpError", f"status {500 + int(held.entry.correlation_id[2:])}"),
        )


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return bench.queue(delivery=RetryPolicy(max_attempts=1), lease_seconds=600)


def test_a_dead_letter_is_the_whole_message(bench: Bench, queue: Queue) -> None:
    kill(bench, queue, 1)
    (dead_letter,) = list_dead_letters(queue).items
    again = get_dead_letter(queue, dead_letter.sk)
    assert again == dead_letter
    assert queue.runtime.bodies.read(again.message) == b"body 0"
    assert (again.message.headers, again.message.correlation_id, again.project) == ({"x-n": "0"}, "c-0", "a")
    assert (again.failed_at, again.error_type, again.error) == (bench.clock(), "HttpError", "status 500")


def test_lists_page_through_everything_once_in_both_directions(bench: Bench, queue: Queue) -> None:
    kill(bench, queue, 9)
    for newest_first in (True, False):
        seen: list[int] = []
        cursor = None
        while True:
            page = list_dead_letters(queue, limit=2, cursor=cursor, newest_first=newest_first)
            seen += [dead_letter.failed_at for dead_letter in page.items]
            cursor = page.next
            if cursor is None:
                break
        assert len(seen) == 9
        assert seen == sorted(seen, reverse=newest_first)


def test_filters_by_time_reason_text_project_and_correlation(bench: Bench, queue: Queue) -> None:
    start = bench.clock()
    kill(bench, queue, 6)

    def numbers(only: DeadLetterFilter) -> list[str]:
        return [c.message.correlation_id for c in list_dead_letters(queue, only=only, newest_first=False).items]

    assert numbers(DeadLetterFilter(project="b")) == ["c-1", "c-3", "c-5"]
    assert numbers(DeadLetterFilter(error_text="STATUS 503")) == ["c-3"]
    assert numbers(DeadLetterFilter(correlation_id="c-2")) == ["c-2"]
    assert numbers(DeadLetterFilter(reason=DeadLetterReason.EXPIRED)) == []
    assert numbers(DeadLetterFilter(failed_from=start + 2_000, failed_before=start + 4_000)) == ["c-1", "c-2"]


@pytest.mark.parametrize("cursor", ["", "x", "!!!", "bm90IGpzb24", "WyJkZWFkIl0", "e30", "WzFd", "[" * 900])
def test_a_cursor_that_was_not_handed_out_is_refused(queue: Queue, cursor: str) -> None:
    with pytest.raises(InvalidCursor):
        list_dead_letters(queue, cursor=cursor)
    with pytest.raises(InvalidCursor):
        list_entries(queue, cursor=cursor)
    with pytest.raises(InvalidCursor):
        list_claims(queue, cursor=cursor)


def test_a_cursor_of_another_queue_is_refused(bench: Bench, queue: Queue) -> None:
    kill(bench, queue, 3)
    cursor = list_dead_letters(queue, limit=1).next
    with pytest.raises(InvalidCursor):
        list_dead_letters(bench.queue("Other"), cursor=cursor)


def test_page_sizes_and_lanes_out_of_range_are_refused(queue: Queue) -> None:
    for limit in (0, 501):
        with pytest.raises(InvalidField, match="limit"):
            list_dead_letters(queue, limit=limit)
    with pytest.raises(InvalidField, match="ready or scheduled"):
        list_entries(queue, "limbo")


def test_a_replay_is_a_new_message_that_points_to_its_origin(bench: Bench, queue: Queue) -> None:
    kill(bench, queue, 1)
    (dead_letter,) = list_dead_letters(queue).items
    receipt = replay(queue, dead_letter, job="job-1")
    assert receipt.message_id != dead_letter.message.id
    (held,) = claim(queue, owner="w").claims
    assert body_of(queue, held) == b"body 0"
    assert (held.message.origin, held.message.correlation_id) == (dead_letter.message.id, "c-0")
    assert (held.entry.project, held.message.headers["x-n"], held.attempt) == ("a", "0", 1)
    first = dead_letter.message
    assert held.message.headers[EFFECTS] == effect_root(first.id, first.received_at, first.headers)
    ack(queue, [held.entry])
    marked = get_dead_letter(queue, dead_letter.sk)
    assert (marked.replayed_as, marked.replay_job, marked.replayed_at) == (receipt.message_id, "job-1", bench.clock())
    assert status(queue, dead_letter.message.id).status is MessageStatus.DEAD


def test_a_job_replays_a_dead_letter_once_however_often_it_is_restarted(bench: Bench, queue: Queue) -> None:
    kill(bench, queue, 1)
    (dead_letter,) = list_dead_letters(queue).items
    mark_replayed = bench.store.mark_replayed
    bench.store.mark_replayed = raising(ConnectionError("killed"))  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        replay(queue, dead_letter, job="job-1")
    bench.store.mark_replayed = mark_replayed  # type: ignore[method-assign]
    first = replay(queue, dead_letter, job="job-1")
    assert first.duplicate
    ack(queue, [c.entry for c in claim(queue, owner="w", limit=9).claims])
    bench.clock.forward(3 * 86_400_000)
    again = replay(queue, get_dead_letter(queue, dead_letter.sk), job="job-1")
    assert (again.message_id, again.duplicate) == (first.message_id, True)
    assert claim(queue, owner="w").claims == []
    assert replay(queue, get_dead_letter(queue, dead_letter.sk), job="job-2").message_id != first.message_id


def test_a_purged_dead_letter_is_gone(bench: Bench, queue: Queue) -> None:
    kill(bench, queue, 2)
    first, second = list_dead_letters(queue).items
    purge_dead_letter(queue, first.sk)
    assert [dead_letter.sk for dead_letter in list_dead_letters(queue).items] == [second.sk]
    for look in (purge_dead_letter, get_dead_letter):
        with pytest.raises(NotFound, match="dead letter"):
            look(queue, first.sk)
