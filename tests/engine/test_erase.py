"""What is erased leaves nothing of its sender behind, and what remains refuses what comes late."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from millrace.engine.claim import Claim, claim
from millrace.engine.dead_letters import list_dead_letters, purge_dead_letter
from millrace.engine.enqueue import Receipt, enqueue
from millrace.engine.erase import erase_ended, finish_erasing
from millrace.engine.filtered import record_filtered
from millrace.engine.finish import RunFailure, ack, end, extend, follow_up, nack
from millrace.engine.operate import cancel_message, purge_page
from millrace.engine.queue import Queue
from millrace.engine.status import MessageStatus, status, statuses
from millrace.engine.workflow_state import read_workflow_state, write_workflow_state
from millrace.model.body import INLINE_LIMIT
from millrace.model.errors import BodyLost, StaleClaim, StoreUnavailable
from millrace.model.message import SEALED, Draft, Message, Result
from millrace.model.queue_spec import Idempotency, Jitter, Ordering, RetryPolicy
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.interface import Applied, WriteResult
from millrace.stores.memory.queue import MemoryStore
from tests.conftest import Bench, tables_apart
from tests.engine.steps import only, raising

SECRET = "s3cr3t"
LARGE = random.Random(5).randbytes(INLINE_LIMIT) + SECRET.encode()
BODIES = pytest.mark.parametrize("body", [SECRET.encode(), LARGE], ids=["small", "large"])


@pytest.fixture(scope="module")
def tables(engine_url: str) -> TableNames:
    return tables_apart(engine_url, "erase")


@pytest.fixture
def queue(bench: Bench) -> Queue:
    return bench.queue(
        ordering=Ordering.PER_KEY,
        delivery=RetryPolicy(max_attempts=2, initial_backoff_ms=0, max_backoff_ms=0, jitter=Jitter.NONE),
        idempotency=Idempotency(window_seconds=3_600),
    )


def draft(body: bytes = SECRET.encode()) -> Draft:
    """Wherever a sender can write something, it writes the secret."""
    return Draft(
        body,
        content_type=f"text/{SECRET}",
        headers={f"x-{SECRET}": SECRET},
        idempotency_key=f"idem {SECRET}",
        key=f"key {SECRET}",
        project=SECRET,
        labels=(SECRET,),
        correlation_id=f"corr-{SECRET}",
        source=f"token:{SECRET}",
        origin=SECRET,
    )


def scanned(store: DynamoStore, table: str) -> list[dict[str, Any]]:
    """Every item of a table, page by page: other tests' items lie in it too."""
    items: list[dict[str, Any]] = []
    start: dict[str, Any] = {}
    while True:
        page = store._calls.send("scan", TableName=table, ConsistentRead=True, **start)
        items += page["Items"]
        if "LastEvaluatedKey" not in page:
            return items
        start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def traces(bench: Bench) -> str:
    """All that is stored of the tenant, as text; bodies outside the table too."""
    kept: list[Any] = [bench.blobs.objects]
    if isinstance(bench.store, MemoryStore):
        store = bench.store
        kept += [store.entries, store.messages, store.location, store.results, store.workflow_state, store.dead_letters]
    else:
        assert isinstance(bench.store, DynamoStore)
        for table in bench.store._names:
            found = scanned(bench.store, table)
            own = {
                item["pk"]["S"]
                for item in found
                if bench.tenant in item["pk"]["S"] or item.get("tenant") == {"S": bench.tenant}
            }
            kept += [item for item in found if item["pk"]["S"] in own]
    return repr(kept)


def run(queue: Queue, *, fails: bool) -> Claim:
    """A run that says the secret wherever a worker can."""
    held = only(claim(queue, owner=f"worker {SECRET}"))
    seen = read_workflow_state(queue, held.entry)
    write_workflow_state(queue, held.entry, SECRET.encode(), seen.version)
    if fails:
        nack(queue, held.entry, held.message, RunFailure(f"{SECRET}Error", f"no {SECRET}"))
    else:
        assert ack(queue, [held.entry], [SECRET.encode()]) == [None]
    return held


def ready(queue: Queue, body: bytes) -> str:
    return enqueue(queue, draft(body)).message_id


def retried(queue: Queue, body: bytes) -> str:
    message_id = ready(queue, body)
    run(queue, fails=True)
    return message_id


def held(queue: Queue, body: bytes) -> str:
    message_id = retried(queue, body)
    only(claim(queue, owner=SECRET))
    return message_id


def dead(queue: Queue, body: bytes) -> str:
    message_id = retried(queue, body)
    run(queue, fails=True)
    return message_id


def done(queue: Queue, body: bytes) -> str:
    message_id = retried(queue, body)
    run(queue, fails=False)
    return message_id


def purge_all(queue: Queue, _id: str) -> None:
    position: str | None = "0:"
    while position:
        position = purge_page(queue, position).next


def purge_dead(queue: Queue, _id: str) -> None:
    (dead_letter,) = list_dead_letters(queue).items
    purge_dead_letter(queue, dead_letter.sk)


def cancel(queue: Queue, message_id: str) -> None:
    cancel_message(queue, message_id, running=True)


def erase_done(queue: Queue, message_id: str) -> None:
    found = queue.store.get_records(message_id)
    assert found.message
    erase_ended(queue, found.message, found, done=True)


Verb = Callable[[Queue, str], None]
WAYS: Sequence[tuple[Callable[[Queue, bytes], str], Verb]] = [
    (ready, purge_all),
    (retried, purge_all),
    (ready, cancel),
    (retried, cancel),
    (held, cancel),
    (dead, purge_dead),
    (done, erase_done),
]
each_way = pytest.mark.parametrize(("prepare", "verb"), WAYS, ids=lambda way: way.__name__)


@BODIES
@each_way
def test_nothing_of_the_sender_is_left(
    bench: Bench, queue: Queue, prepare: Callable[[Queue, bytes], str], verb: Verb, body: bytes
) -> None:
    message_id = prepare(queue, body)
    assert SECRET in traces(bench)
    verb(queue, message_id)
    assert SECRET not in traces(bench)
    assert not bench.blobs.objects
    found = status(queue, message_id)
    assert found.status is MessageStatus.PURGED
    assert statuses(queue, [message_id]) == {message_id: MessageStatus.PURGED}
    with pytest.raises(BodyLost, match="erased"):
        queue.runtime.bodies.read(found.message)
    queue.runtime.credits.give_back()
    assert queue.state(fresh=True).depth == 0


@each_way
def test_a_repeat_within_its_window_is_refused_and_one_after_it_is_new(
    bench: Bench, queue: Queue, prepare: Callable[[Queue, bytes], str], verb: Verb
) -> None:
    message_id = prepare(queue, LARGE)
    verb(queue, message_id)
    again = enqueue(queue, draft(LARGE))
    assert (again.duplicate, again.status, again.message_id) == (True, MessageStatus.PURGED, message_id)
    assert queue.runtime.bodies.is_body_of(again.existing, LARGE)  # type: ignore[arg-type]
    assert SECRET not in traces(bench), "a repeat brings nothing back"
    bench.clock.forward(3_600_000)
    assert not enqueue(queue, draft(LARGE)).duplicate
    run(queue, fails=False)
    found = status(queue, message_id)
    assert found.status is MessageStatus.DONE
    assert found.result, "a seal keeps no later message's result out"
    assert found.result.snapshot == SECRET.encode()


def test_the_holder_of_an_erased_message_changes_nothing(bench: Bench, queue: Queue) -> None:
    message_id = ready(queue, LARGE)
    mine = only(claim(queue, owner="w"))
    cancel(queue, message_id)
    assert isinstance(ack(queue, [mine.entry], [SECRET.encode()])[0], StaleClaim)
    assert isinstance(extend(queue, [mine.entry])[0], StaleClaim)
    with pytest.raises(StaleClaim):
        nack(queue, mine.entry, mine.message, RunFailure(SECRET, SECRET))
    with pytest.raises(StaleClaim):
        write_workflow_state(queue, mine.entry, SECRET.encode(), 0)
    assert SECRET not in traces(bench)


def test_an_ack_may_be_repeated_after_its_message_was_erased(queue: Queue) -> None:
    message_id = ready(queue, b"x")
    mine = run(queue, fails=False)
    erase_done(queue, message_id)
    assert ack(queue, [mine.entry], [b"r"]) == [None]


def test_a_result_that_comes_after_the_erasing_is_not_kept(bench: Bench, queue: Queue) -> None:
    message_id = ready(queue, b"x")
    mine = only(claim(queue, owner="w"))
    ended = end(queue, mine.entry, SECRET.encode())
    erase_done(queue, message_id)
    bench.clock.forward(1_000)
    assert ended
    follow_up(queue, [ended])
    other = Result("another", "n", 1, bench.clock(), b"", 1)
    queue.store.put_results([Result(message_id, mine.message.nonce, 1, bench.clock(), SECRET.encode(), 1), other])
    kept = queue.store.get_records(message_id).result
    assert kept
    assert (kept.snapshot, kept.finished_at) == (b"", SEALED)


@pytest.mark.parametrize(
    ("prepare", "verb", "step"),
    [(*way, step) for way in WAYS if way[1] is not purge_all for step in ("blob", "pointer")]
    + [(dead, purge_dead, "dead letter")],
    ids=lambda way: getattr(way, "__name__", way),
)
def test_a_repeat_finishes_what_a_crash_left(
    bench: Bench, queue: Queue, monkeypatch: pytest.MonkeyPatch, prepare: Any, verb: Verb, step: str
) -> None:
    message_id = prepare(queue, LARGE)
    with monkeypatch.context() as patch:
        crash = raising(StoreUnavailable("the process dies here"))
        if step == "blob":
            patch.setattr(bench.blobs, "delete", crash)
        elif step == "dead letter":
            patch.setattr(bench.store, "delete_dead_letter", crash)
        else:
            erase_message = bench.store.erase_message

            def with_a_body(erasure: Any) -> WriteResult[Any]:
                return erase_message(erasure) if erasure.husk.body.blob else crash()

            patch.setattr(bench.store, "erase_message", with_a_body)
        with pytest.raises(StoreUnavailable):
            verb(queue, message_id)
    verb(queue, message_id)
    assert SECRET not in traces(bench)
    assert not bench.blobs.objects
    left = queue.store.get_records(message_id).message
    assert left
    assert left.body.blob == "", "it names a body no more"


def test_a_purge_that_goes_on_elsewhere_finishes_what_it_was_told_before(
    bench: Bench, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    message_id = ready(queue, LARGE)
    in_hand: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(bench.blobs, "delete", raising(StoreUnavailable("the process dies here")))
        with pytest.raises(StoreUnavailable):
            purge_page(queue, before=in_hand.extend)
    assert in_hand == [message_id]
    assert bench.blobs.objects
    finish_erasing(queue, message_id)
    finish_erasing(queue, "unknown")
    assert not bench.blobs.objects


def test_an_entry_whose_sender_was_not_answered_is_left_alone(bench: Bench, queue: Queue, monkeypatch: Any) -> None:
    """It is about to be accepted: a purge that took it would make a message that never runs."""
    put_messages = bench.store.put_messages

    def purged_in_between(messages: Sequence[Message]) -> list[WriteResult[Message]]:
        purge_all(queue, "")
        return put_messages(messages)

    monkeypatch.setattr(bench.store, "put_messages", purged_in_between)
    receipt = enqueue(queue, draft())
    assert not receipt.duplicate
    assert [found.entry.id for found in claim(queue, owner="w").claims] == [receipt.message_id]


def test_a_purged_dead_letter_leaves_the_next_message_of_its_key_alone(bench: Bench, queue: Queue) -> None:
    message_id = dead(queue, LARGE)
    bench.clock.forward(3_600_000)
    again = enqueue(queue, Draft(LARGE[::-1], idempotency_key=f"idem {SECRET}", key="k"))
    assert (again.duplicate, again.message_id) == (False, message_id)
    purge_dead(queue, message_id)
    mine = only(claim(queue, owner="w"))
    assert queue.runtime.bodies.read(mine.message) == LARGE[::-1]
    assert f"no {SECRET}" not in traces(bench), "its failures are gone"
    assert len(bench.blobs.objects) == 1


def test_what_a_filter_left_out_can_be_erased(bench: Bench, queue: Queue) -> None:
    receipt: Receipt = record_filtered(queue, draft())
    erase_done(queue, receipt.message_id)
    assert SECRET not in traces(bench)


def test_a_purge_waits_for_nobody_who_extends_a_claim_that_had_run_out(bench: Bench, queue: Queue) -> None:
    """Nobody held it when it was read; its holder has come back before the write."""
    message_id = ready(queue, b"x")
    mine = only(claim(queue, owner="w", lease_ms=1_000))
    bench.clock.forward(1_000)
    erase_message = bench.store.erase_message

    def slower(*given: Any) -> WriteResult[Any]:
        assert not isinstance(extend(queue, [mine.entry])[0], StaleClaim)
        return erase_message(*given)

    bench.store.erase_message = slower  # type: ignore[assignment,method-assign]
    assert purge_page(queue).removed == 0
    assert status(queue, message_id).status is MessageStatus.IN_FLIGHT
    assert isinstance(bench.store.end_entries([mine.entry])[0], Applied)
