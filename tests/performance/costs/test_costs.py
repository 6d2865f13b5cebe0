"""The write units that a user pays for, step by step: the table of promises, held."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import pytest

from millrace.engine.bury import fitting, shortened
from millrace.engine.claim import Claim, claim
from millrace.engine.dictionary_review import SAMPLE, review_dictionary
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import ack
from millrace.engine.queue import Queue
from millrace.model.dictionary import Dictionary
from millrace.model.message import Attempt, Draft, MessageLocation
from millrace.model.queue_samples import HOUR, SAMPLE_MS, QueueSample
from millrace.model.queue_spec import Ordering, QueueSpec
from millrace.model.queue_state import RECENT_DONE
from millrace.stores.dynamodb.counters import DICTIONARY, counter, dictionary_text
from millrace.stores.dynamodb.items import entry_item, location_item, message_item
from millrace.stores.interface import APPLIED
from tests.performance.costs import measures
from tests.performance.costs.corpus import github_drafts
from tests.performance.costs.measures import BATCH, SMALL, Bench, incompressible
from tests.performance.costs.meter import units
from tests.stores.samples import claimed
from tests.stores.sizes import item_bytes, largest_entry


def test_message_alone_costs_each_step_and_nothing_shared(bench: Bench) -> None:
    costs = measures.life_alone(bench, cached=True)
    assert (costs["enqueue"].writes, costs["enqueue"].accounting) == (3, 1)
    assert (costs["claim"].writes, costs["claim"].accounting) == (1, 0)
    assert (costs["ack"].writes, costs["ack"].accounting) == (3, 1)


@pytest.mark.parametrize(("cached", "gives", "life"), [(True, False, 4), (False, True, 4), (True, True, 5)])
def test_whole_life_of_a_small_message(bench: Bench, cached: bool, gives: bool, life: int) -> None:
    """A result costs a unit where the handler gives one and the queue keeps it."""
    costs = measures.life(bench, cached=cached, result=b'{"ok":true}' if gives else None)
    accounting = sum(cost.accounting for cost in costs.values())
    assert sum(cost.writes for cost in costs.values()) == pytest.approx(life + accounting)
    assert 0 < accounting <= 0.1
    assert costs["enqueue"].writes - costs["enqueue"].accounting == pytest.approx(2)
    assert costs["claim"].writes == 1
    assert costs["ack"].writes - costs["ack"].accounting == pytest.approx(2 if cached and gives else 1)


def test_a_small_message_under_a_key_of_kms_costs_what_it_costs_without(dynamodb_bench: Bench) -> None:
    """Its wrapped data key is some 300 bytes more, in the message and in the result: both stay below 1 KB."""
    plain, under = (measures.life(dynamodb_bench, cached=True, encrypt=key) for key in ("", "alias/costs"))
    assert {step: cost.writes for step, cost in under.items()} == {step: cost.writes for step, cost in plain.items()}


def test_kms_is_called_once_for_a_thousand_messages(dynamodb_bench: Bench) -> None:
    """Once where a data key is made and once where it is read, for bodies and for results."""
    assert measures.calls_of_kms(dynamodb_bench, 2_000) <= 4 / 1_000


def test_a_queue_that_nobody_has_used_costs_four_units_once(bench: Bench) -> None:
    """Its name in the list and the note of it in its state, in one transaction."""
    queue = bench.runtime.queue(bench.tenant, QueueSpec("Fresh"))
    first, second = (bench.measure(1, lambda: enqueue(queue, Draft(SMALL))) for _ in range(2))
    assert first.writes - first.accounting == 2 + 4
    assert second.writes - second.accounting == 2


@pytest.mark.parametrize("ordering", [Ordering.FIFO, Ordering.PER_KEY])
def test_a_message_of_an_ordered_queue_costs_its_number_more(bench: Bench, ordering: Ordering) -> None:
    queue = bench.queue(ordering=ordering, shards=1)
    alone = bench.measure(1, lambda: enqueue(queue, Draft(SMALL, key="k")))
    assert alone.writes - alone.accounting == 2 + 1
    many = bench.measure(BATCH, lambda: enqueue_all(queue, [Draft(SMALL, key="k")] * BATCH))
    assert many.writes - many.accounting == pytest.approx(2 + 1 / BATCH)


def test_credits_at_load_cost_a_tenth_of_a_unit_at_most(dynamodb_bench: Bench) -> None:
    cost = measures.enqueue_at_load(dynamodb_bench)
    assert cost.writes - cost.accounting == pytest.approx(2)
    assert 0 < cost.accounting <= 0.1


@pytest.mark.parametrize("size", [1, 500, 1_000, 5_000, 20_000, 32_000])
def test_enqueue_costs_one_and_each_started_kb(dynamodb_bench: Bench, size: int) -> None:
    queue = dynamodb_bench.queue()
    cost = dynamodb_bench.measure(1, lambda: enqueue(queue, Draft(incompressible(size))))
    (found,) = claim(queue, owner="worker").claims
    stored = item_bytes(message_item(found.message))
    assert size < stored < size + 500, "little is stored beside the body"
    assert cost.writes - cost.accounting == 1 + math.ceil(stored / 1024)


def test_body_in_a_blob_costs_two_units_whatever_its_size(bench: Bench) -> None:
    queue = bench.queue()
    cost = bench.measure(1, lambda: enqueue(queue, Draft(incompressible(5_000_000))))
    assert cost.writes - cost.accounting == 2


@pytest.mark.parametrize("size", [10, 30_000, 1_000_000])
def test_retry_costs_six_whatever_the_body(bench: Bench, size: int) -> None:
    costs = measures.retry(bench, incompressible(size), times=3)
    assert [cost.writes for cost in costs] == [6, 6, 6]


@pytest.mark.parametrize("dead_letter", ["x", "é", "東", "🦊", '"', "\n", "\x01", "\ud800"])
def test_retry_costs_six_whatever_the_error_says(bench: Bench, dead_letter: str) -> None:
    """With every name as long as it may be; the first run and the last are always among those kept."""
    long = dead_letter * 5_000
    costs = measures.retry(bench, SMALL, error=long, error_type=long, owner="🦊" * 16, times=6, long_name=True)
    assert [cost.writes for cost in costs] == [6] * 6


@pytest.mark.parametrize("dead_letter", ["x", "é", "東", "🦊", '"', "\n", "\x01", "\ud800"])
@pytest.mark.parametrize("length", [1, 16, 30, 60, 140, 141])
def test_history_of_two_runs_always_fits(dead_letter: str, length: int) -> None:
    """Short in letters may be long in bytes: the first run and the last are kept, beside the longest names."""
    run = Attempt(
        99_999,
        99_999_999,
        dead_letter * 64,
        9_999_999_999_999,
        9_999_999_999_999,
        dead_letter * 60,
        dead_letter * length,
    )
    runs = fitting(tuple(replace(shortened(run), number=number) for number in (99_997, 99_998, 99_999)))
    assert (runs[0].number, runs[-1].number) == (99_997, 99_999)
    place = largest_entry().place
    assert units(location_item(MessageLocation("m" * 32, "n" * 22, place, 9_999_999_999, history=runs))) == 1


def test_retry_in_an_ordered_queue_stays_in_place_and_costs_four(bench: Bench) -> None:
    (cost,) = measures.retry(bench, SMALL, ordering=Ordering.FIFO)
    assert cost.writes == 4


def test_places_of_a_key_cost_no_write_more_than_its_order(bench: Bench) -> None:
    """The second look is a read: one for short keys, however many of them."""
    written = {}
    for places in (None, 1, 3):
        queue = bench.queue(ordering=Ordering.PER_KEY, concurrency_per_key=places)
        enqueue_all(queue, [Draft(SMALL, key=f"key{n}") for n in range(BATCH)])
        claims: list[Claim] = []
        taken = bench.measure(BATCH, partial(_take_all, queue, claims))
        done = bench.measure(BATCH, partial(ack, queue, [held.entry for held in claims]))
        assert len(claims) == BATCH
        written[places] = taken.writes, done.writes - done.accounting, taken.requests * BATCH
    assert written[1][:2] == written[3][:2] == written[None][:2]
    assert written[None][0] == 1
    assert written[3][2] == written[1][2] == written[None][2] + 1


def _take_all(queue: Queue, claims: list[Claim]) -> None:
    claims += claim(queue, owner="worker", limit=BATCH).claims


@pytest.mark.parametrize("count", [1, BATCH])
def test_extend_and_release_cost_one(bench: Bench, count: int) -> None:
    assert measures.extension(bench, count).writes == 1
    assert measures.giving_back(bench, count).writes == 1


def test_burial_costs_four_and_twice_the_dead_letter(bench: Bench) -> None:
    cost = measures.burial(bench)
    assert cost.writes - cost.accounting == 6
    large = measures.burial(bench, incompressible(10_000))
    assert large.writes - large.accounting == 4 + 2 * 11


def test_a_broken_claim_costs_four(bench: Bench) -> None:
    assert measures.broken_claim(bench).writes == 4


def test_an_orphan_costs_four_and_its_claim(bench: Bench) -> None:
    """The entry goes and a marker takes its message's place in one transaction."""
    cost = measures.orphan(bench)
    assert cost.writes - cost.accounting == 1 + 4


def test_workflow_state_costs_four(bench: Bench) -> None:
    assert measures.document(bench).writes == 4


def test_an_ack_with_a_write_costs_six(bench: Bench) -> None:
    """The entry, the result and the write, each twice: a transaction prepares and commits."""
    cost = measures.ack_with_a_write(bench)
    assert (cost.writes, cost.accounting) == (6 + 1, 1)


def test_an_enqueue_with_a_write_costs_six(bench: Bench) -> None:
    """The entry, the message and the write, each twice."""
    cost = measures.enqueue_with_a_write(bench)
    assert (cost.writes, cost.accounting) == (6 + 1, 1)


def test_a_step_costs_four_and_nothing_once_it_is_kept(bench: Bench) -> None:
    assert measures.step_once(bench, kept=False).writes == 4
    assert measures.step_once(bench, kept=True).writes == 0


def test_repeat_of_a_key_costs_three(bench: Bench) -> None:
    """The entry, the refused commit, the withdrawal."""
    cost = measures.duplicate(bench)
    assert cost.writes - cost.accounting == 3


@pytest.mark.parametrize("size", [30_000, 1_000_000])
def test_repeat_of_a_large_message_is_found_by_a_read(dynamodb_bench: Bench, size: int) -> None:
    """At most the counter is written, where no credit is in hand; a read unit for each 4 KB of what is there."""
    body = incompressible(size)
    cost = measures.duplicate(dynamodb_bench, body)
    assert cost.writes == cost.accounting <= 1
    print("READS", size, cost)
    stored = size if size < 32_768 else 1_000
    assert cost.reads <= math.ceil(stored / 4096) + 2


def test_a_large_message_with_a_key_costs_a_look_more(dynamodb_bench: Bench) -> None:
    queue = dynamodb_bench.queue()
    body = incompressible(30_000)
    cost = dynamodb_bench.measure(1, lambda: enqueue(queue, Draft(body, idempotency_key="new")))
    assert cost.writes - cost.accounting == 1 + 30
    assert cost.reads <= 1


def test_a_key_with_another_body_costs_no_more_than_a_repeat(bench: Bench) -> None:
    repeat, reused = measures.duplicate(bench), measures.reused_key(bench)
    assert (reused.writes, reused.reads) == (repeat.writes, repeat.reads)


def test_largest_entry_costs_one_unit_at_every_step(bench: Bench) -> None:
    entry = largest_entry(bench.tenant)
    again = claimed(entry, now=entry.until)
    assert units(entry_item(entry)) == units(entry_item(again)) == 1
    assert bench.measure(1, lambda: bench.store.put_entries([entry])).writes == 1
    assert bench.measure(1, lambda: bench.store.claim_entries([again], entry.until)).writes == 1
    assert bench.measure(1, lambda: bench.store.hold_entries([again], [again.token])).writes == 1
    assert bench.measure(1, lambda: bench.store.end_entries([again])).writes == 1
    assert bench.store.put_entries([entry]) == [APPLIED], "it was really gone"


# -- reads and requests ---------------------------------------------------------------------------------------------


def test_claimed_batch_is_one_poll_and_one_batch_read(dynamodb_bench: Bench) -> None:
    queue = dynamodb_bench.queue()
    measures.filled(queue, BATCH + 5)
    queue.state()
    dynamodb_bench.meter.reset()
    measures.held(queue, BATCH)
    operations = dynamodb_bench.meter.operations
    assert operations == ["Query", "Query", "BatchGetItem", "BatchExecuteStatement"], "both lanes, messages, claims"


def test_claim_costs_as_much_from_a_deep_queue_as_from_a_shallow_one(dynamodb_bench: Bench) -> None:
    shallow, deep = (measures.claimed_at_depth(dynamodb_bench, depth) for depth in (2 * BATCH, 20 * BATCH))
    assert shallow == deep


def test_whole_life_takes_less_than_half_a_request_a_message(bench: Bench) -> None:
    costs = measures.life(bench, cached=True)
    assert sum(cost.requests for cost in costs.values()) <= 0.5


def test_idle_poll_costs_no_write_and_next_to_no_read(dynamodb_bench: Bench) -> None:
    cost = measures.idle_poll(dynamodb_bench)
    assert cost.writes == 0
    assert cost.reads <= 2
    assert cost.requests <= 4


def test_extending_a_batch_is_one_request(bench: Bench) -> None:
    assert measures.extension(bench, BATCH).requests == 1 / BATCH


def test_a_sample_of_the_history_costs_one_unit_at_any_size(dynamodb_bench: Bench) -> None:
    """One for a queue in five minutes: twelve share an item, and it stays below 1 KB with large numbers."""
    queue = dynamodb_bench.queue()
    big = 999_999_999
    sample = QueueSample(HOUR * 1_000, 999_999, 14 * 86_400_000, big, big, big, big)

    def hour() -> None:
        for number in range(12):
            at = sample.at + number * SAMPLE_MS + 59_999
            queue.store.put_sample(queue.tenant, queue.spec.name, replace(sample, at=at))

    assert dynamodb_bench.measure(12, hour).writes == 1


def test_the_largest_counters_stay_one_unit() -> None:
    """With everything that they carry: names, minutes, days, and the newest messages that are done."""
    item = {
        "pk": {"S": f"C#{'t' * 48}#{'q' * 64}"},
        "sk": {"S": "C"},
        "listed": {"N": "1"},
        "paused_by": {"S": "p" * 32},
    }
    for name in ("depth", "returned", "epoch", "arrived", "done", "failed", "dead"):
        item[name] = {"N": "999999999"}
    for name in ("paused", "pace", "repaired", "moved"):
        item[name] = {"N": "9999999999999"}
    item |= {counter(kind, 30_000_000 + n): {"N": "99999"} for kind in "gae" for n in range(8)}
    item |= {counter("d", 20_000 + n): {"N": "9999"} for n in range(16)}
    item["recent"] = {"S": ",".join(["i" * 32] * RECENT_DONE)}
    item[DICTIONARY] = {"S": dictionary_text(Dictionary(b"x").name, 9_999_999_999_999)}
    assert item_bytes(item) <= 1024


def test_the_review_of_a_dictionary_stays_within_its_bounds(dynamodb_bench: Bench) -> None:
    """Over every sweep that gathers for it, in a queue that is drained between them; once a week at most."""
    queue = dynamodb_bench.queue(cached=False)
    drafts = [replace(draft, idempotency_key=None) for draft in github_drafts()]
    writes = reads = 0.0
    reviewed = None
    for start in range(0, len(drafts), 7):
        enqueue_all(queue, drafts[start : start + 7])
        ack(queue, [held.entry for held in claim(queue, owner="worker", limit=7).claims])
        queue.runtime.credits.give_back()
        state = replace(queue.state(fresh=True), arrived=SAMPLE)
        dynamodb_bench.meter.reset()
        reviewed = review_dictionary(queue, state) or reviewed
        writes, reads = writes + dynamodb_bench.meter.writes, reads + dynamodb_bench.meter.reads
        if reviewed:
            break
    assert reviewed is not None
    assert reviewed.after < 0.7 * reviewed.plain
    assert writes <= 300
    assert reads <= 1_500


def test_counters_of_a_long_day_stay_one_unit(dynamodb_bench: Bench) -> None:
    """Minutes that nobody reads any more go with the next write, or the counter itself would grow dear."""
    queue = dynamodb_bench.queue()

    def minute() -> None:
        enqueue(queue, Draft(SMALL))
        (found,) = measures.held(queue)
        assert ack(queue, [found.entry]) == [None]

    costs = []
    for _ in range(12):
        dynamodb_bench.clock.forward(61_000)
        costs.append(dynamodb_bench.measure(1, minute).writes)
    assert set(costs) == {6}, "no result, and nothing shared"
    state = queue.state(fresh=True)
    assert max(map(len, (state.grants, state.arrivals, state.endings))) <= 8
