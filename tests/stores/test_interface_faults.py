"""Throttled, timed out, applied with the answer lost, answered in part: every step still ends as it must."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from millrace.model.errors import StoreUnavailable
from millrace.model.message import MessageLocation
from millrace.model.queue_state import CounterDelta, CreditRequest, QueueState
from millrace.stores.interface import APPLIED, Applied, Refused, Unknown
from tests.conftest import NOON, Clock
from tests.faults import client as faults
from tests.faults.client import RequestFault, StoreOnFaultyClient, statements
from tests.stores.samples import LEASE, Samples, all_claimed, claimed
from tests.stores.steps import LISTS, SINGLES, Prepare

DEADLINE = 8.0
ONCE: list[list[RequestFault]] = [
    [faults.throttled],
    [faults.conflict],
    [faults.never_sent],
    [faults.timed_out_before],
    [faults.timed_out_after],
    [faults.throttled, faults.failed_after, faults.failed_before],
]


def name(value: Any) -> str:
    return "+".join(fault.__name__ for fault in value) if isinstance(value, list) else getattr(value, "__name__", value)


#: Every fault on DynamoDB Local; on MiniStack those after which a write must be recognised.
each_fault = pytest.mark.parametrize(
    ("faulty", "plan"),
    [("dynamodb", plan) for plan in ONCE] + [("ministack", plan) for plan in ONCE[-2:]],
    indirect=["faulty"],
    ids=name,
)


def ends_as_it_must(
    faulty: StoreOnFaultyClient, samples: Samples, prepare: Prepare, count: int, plan: list[RequestFault]
) -> None:
    faulty.faults.plan()
    step = prepare(faulty, samples, count)
    faulty.faults.plan(*plan)
    assert step.act() == step.outcome
    assert len(faulty.faults.sent) > len(plan), "the whole plan was used"
    assert step.look() == step.seen


@each_fault
@pytest.mark.parametrize("prepare", SINGLES, ids=name)
def test_single_step_outlives_a_fault(
    faulty: StoreOnFaultyClient, samples: Samples, prepare: Prepare, plan: list[RequestFault]
) -> None:
    ends_as_it_must(faulty, samples, prepare, 1, plan)


@each_fault
@pytest.mark.parametrize("prepare", LISTS, ids=name)
@pytest.mark.parametrize("many", [1, 3], ids=["single", "batch"])
def test_list_step_outlives_a_fault(
    faulty: StoreOnFaultyClient, samples: Samples, prepare: Prepare, plan: list[RequestFault], many: int
) -> None:
    ends_as_it_must(faulty, samples, prepare, many, plan)


@pytest.mark.parametrize("code", ["ThrottlingError", "TransactionConflict", "InternalServerError", "lost"])
@pytest.mark.parametrize("prepare", LISTS, ids=name)
def test_batch_outlives_faults_of_its_statements(
    faulty: StoreOnFaultyClient, samples: Samples, prepare: Prepare, code: str
) -> None:
    ends_as_it_must(faulty, samples, prepare, 4, [statements(_1=code, _2=code), statements(_0=code)])


def test_only_statements_without_an_answer_are_sent_again(faulty: StoreOnFaultyClient, samples: Samples) -> None:
    asked: list[int] = []

    def counting(send: Any, operation: str, arguments: dict[str, Any]) -> Any:
        asked.append(len(arguments["Statements"]))
        return statements(_0="ThrottlingError")(send, operation, arguments) if len(asked) < 3 else send(**arguments)

    faulty.faults.plan(always=counting)
    assert faulty.put_entries(samples.entries(5)) == [APPLIED] * 5
    assert asked == [5, 1, 1]


def test_batch_lost_in_silence_is_recognised_with_one_read(faulty: StoreOnFaultyClient, samples: Samples) -> None:
    faulty.faults.plan(faults.timed_out_after)
    assert faulty.put_entries(samples.entries(25)) == [APPLIED] * 25
    assert faulty.faults.sent == ["batch_execute_statement"] * 2 + ["batch_get_item"]


# -- what cannot be recognised is not repeated ----------------------------------------------------------------------


@pytest.fixture
def counted(faulty: StoreOnFaultyClient, tenant: str) -> QueueState:
    state = faulty.take_credits(tenant, "Jobs", CreditRequest(10, 100, NOON))
    assert isinstance(state, QueueState)
    return state


@pytest.mark.parametrize(
    ("fault", "applied"),
    [
        (faults.timed_out_before, False),
        (faults.failed_before, False),
        (faults.timed_out_after, True),
        (faults.failed_after, True),
    ],
    ids=["timed out before", "failed before", "timed out after", "failed after"],
)
class TestNotRepeated:
    """Sent once, whether it happened or not: booked twice, the depth would stand too low for good."""

    def test_settle(self, faulty: StoreOnFaultyClient, counted: QueueState, fault: RequestFault, applied: bool) -> None:
        faulty.faults.plan(fault)
        assert faulty.settle(counted.tenant, "Jobs", CounterDelta(NOON, ended=3, done=3)) is None
        assert faulty.faults.sent == ["update_item"]
        state = faulty.get_queue_state(counted.tenant, "Jobs")
        assert (state.depth, state.returned, state.done) == ((7, 3, 3) if applied else (10, 0, 0))

    def test_settle_under_an_older_epoch(
        self, faulty: StoreOnFaultyClient, counted: QueueState, fault: RequestFault, applied: bool
    ) -> None:
        faulty.repair_depth(counted, 1, NOON)
        faulty.faults.plan(faults.works, fault)
        assert faulty.settle(counted.tenant, "Jobs", CounterDelta(NOON, epoch=0, ended=3, done=3)) is None
        assert faulty.faults.sent == ["update_item"] * 2
        state = faulty.get_queue_state(counted.tenant, "Jobs")
        assert (state.depth, state.returned, state.done) == (9, 0, 3 if applied else 0)

    def test_mend_depth(
        self, faulty: StoreOnFaultyClient, counted: QueueState, fault: RequestFault, applied: bool
    ) -> None:
        faulty.faults.plan(fault)
        assert faulty.repair_depth(counted, 4, NOON) is False
        assert faulty.faults.sent == ["update_item"]
        assert faulty.get_queue_state(counted.tenant, "Jobs").depth == (6 if applied else 10)

    def test_set_pace(
        self, faulty: StoreOnFaultyClient, counted: QueueState, fault: RequestFault, applied: bool
    ) -> None:
        faulty.faults.plan(fault)
        assert faulty.set_pace(counted, NOON) is False
        assert faulty.faults.sent == ["update_item"]

    def test_credits_taken_count_at_least_once(
        self, faulty: StoreOnFaultyClient, counted: QueueState, fault: RequestFault, applied: bool
    ) -> None:
        """Asked again at the risk of counting twice: too high a depth is mended."""
        faulty.faults.plan(fault)
        state = faulty.take_credits(counted.tenant, "Jobs", CreditRequest(5, 100, NOON))
        assert isinstance(state, QueueState)
        assert state.depth == (20 if applied else 15)

    def test_order_numbers_are_never_given_twice(
        self, faulty: StoreOnFaultyClient, counted: QueueState, fault: RequestFault, applied: bool
    ) -> None:
        """Asked again at the risk of a gap."""
        faulty.faults.plan(fault)
        assert faulty.take_numbers(counted.tenant, "Jobs", {0: 5}) == {0: 6 if applied else 1}

    def test_leaving_the_list_is_repeated_and_known(
        self, faulty: StoreOnFaultyClient, counted: QueueState, fault: RequestFault, applied: bool
    ) -> None:
        """The request token tells what an earlier try did; list and state agree whatever the answer is."""
        faulty.register(counted.tenant, "Idle")
        faulty.faults.plan(fault)
        assert faulty.unregister(faulty.get_queue_state(counted.tenant, "Idle")) is True
        listed = {(state.tenant, state.queue) for state in faulty.list_all_queue_states()}
        assert (counted.tenant, "Idle") not in listed
        assert faulty.get_queue_state(counted.tenant, "Idle").listed is False


@pytest.mark.parametrize("fault", [faults.throttled, faults.never_sent, faults.conflict], ids=name)
def test_booking_that_surely_did_nothing_is_repeated(
    faulty: StoreOnFaultyClient, counted: QueueState, fault: RequestFault
) -> None:
    faulty.faults.plan(fault, fault)
    state = faulty.settle(counted.tenant, "Jobs", CounterDelta(NOON, ended=3, done=3))
    assert state is not None
    assert (state.depth, state.done) == (7, 3)
    assert len(faulty.faults.sent) == 3


# -- races within the silence ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [1, 3])
def test_rival_that_claims_during_the_silence_wins(faulty: StoreOnFaultyClient, samples: Samples, many: int) -> None:
    entries = samples.entries(many)
    faulty.put_entries(entries)
    rivals = all_claimed(entries, "rival")

    def rival_first(_send: Any, _operation: str, _arguments: dict[str, Any]) -> Any:
        assert faulty.claim_entries(rivals, NOON) == [APPLIED] * many
        return faults.timed_out_before(_send, _operation, _arguments)

    faulty.faults.plan(rival_first)
    assert faulty.claim_entries(all_claimed(entries), NOON) == [Refused(rival) for rival in rivals]


@pytest.mark.parametrize("many", [1, 3])
def test_end_lost_in_silence_is_not_believed_once_the_claim_ran_out(
    faulty: StoreOnFaultyClient, samples: Samples, clock: Clock, many: int
) -> None:
    """Gone by then may mean that somebody else took it over and ended it."""
    held = all_claimed(samples.entries(many))
    faulty.put_entries(held)

    def late(send: Any, operation: str, arguments: dict[str, Any]) -> Any:
        clock.forward(LEASE)
        return faults.timed_out_after(send, operation, arguments)

    faulty.faults.plan(late)
    assert faulty.end_entries(held) == [Refused(None)] * many


@pytest.mark.parametrize("many", [1, 3])
def test_end_of_what_was_gone_before_is_refused_without_silence(
    faulty: StoreOnFaultyClient, samples: Samples, many: int
) -> None:
    held = all_claimed(samples.entries(many))
    faulty.faults.plan(faults.throttled)
    assert faulty.end_entries(held) == [Refused(None)] * many


@pytest.mark.parametrize("many", [1, 3])
def test_release_that_a_rival_followed_is_no_longer_recognised(
    faulty: StoreOnFaultyClient, samples: Samples, many: int
) -> None:
    held = all_claimed(samples.entries(many))
    faulty.put_entries(held)
    rivals = all_claimed([entry.unclaimed() for entry in held], "rival")

    def then_rival(send: Any, operation: str, arguments: dict[str, Any]) -> Any:
        send(**arguments)
        faulty.claim_entries(rivals, NOON)
        return faults.timed_out_before(send, operation, arguments)

    faulty.faults.plan(then_rival)
    free = [entry.unclaimed() for entry in held]
    assert faulty.hold_entries(free, [entry.token for entry in held]) == [Refused(rival) for rival in rivals]


@pytest.mark.parametrize("many", [1, 3])
def test_what_a_claim_handle_carries_is_enough_to_recognise_an_end_and_a_release(
    faulty: StoreOnFaultyClient, samples: Samples, many: int
) -> None:
    held = all_claimed(samples.entries(many))
    faulty.put_entries(held)
    carried = [replace(entry, expires_at=0, priority=0, key="", project="", labels=(), deliveries=0) for entry in held]
    faulty.faults.plan(faults.timed_out_after)
    free = [entry.unclaimed() for entry in carried]
    assert faulty.hold_entries(free, [entry.token for entry in held]) == [APPLIED] * many
    again = [entry.claimed("again", "w", NOON, LEASE) for entry in held]
    faulty.claim_entries(again, NOON)
    faulty.faults.plan(faults.timed_out_after)
    carried = [replace(entry, expires_at=0, priority=0, key="", project="", labels=()) for entry in again]
    assert faulty.end_entries(carried) == [APPLIED] * many


@pytest.mark.parametrize("many", [1, 3])
@pytest.mark.parametrize("broken", [False, True], ids=["purged", "broken and ended"])
def test_an_ack_without_an_answer_is_not_taken_for_done_where_an_operator_was_faster(
    faulty: StoreOnFaultyClient, samples: Samples, many: int, broken: bool
) -> None:
    """The entry is gone and the claim is live: that it was not ours is told by its location."""
    held = all_claimed(samples.entries(many))
    faulty.put_entries(held)

    def then_operator(send: Any, operation: str, arguments: Any) -> Any:
        faulty.faults.plan()
        for entry in held:
            trace = MessageLocation(entry.id, entry.nonce, None, 9, purged_at=0 if broken else NOON)
            faulty.bury_entry(entry, replace(trace, broken=entry.version if broken else 0), None)
        return faults.timed_out_before(send, operation, arguments)

    faulty.faults.plan(then_operator)
    assert faulty.end_entries(held) == [Refused(None)] * many


def test_dead_letter_that_another_deleted_is_not_ours(faulty: StoreOnFaultyClient, samples: Samples) -> None:
    faulty.faults.plan(faults.throttled)
    assert faulty.delete_dead_letter(samples.dead_letter()) is False


# -- the deadline ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [faults.throttled, faults.timed_out_before, faults.failed_before], ids=name)
@pytest.mark.parametrize("many", [1, 3], ids=["single", "batch"])
def test_step_without_an_answer_ends_unknown_at_its_deadline(
    faulty: StoreOnFaultyClient, samples: Samples, fault: RequestFault, many: int
) -> None:
    entries, messages = samples.entries(many), samples.messages(many)
    held = all_claimed(entries)
    began = faulty.time.now
    for act in (
        lambda: faulty.put_entries(entries),
        lambda: faulty.put_messages(messages),
        lambda: faulty.drop_entries(entries),
        lambda: faulty.claim_entries(held, NOON),
        lambda: faulty.end_entries(held),
        lambda: faulty.hold_entries(held, [entry.token for entry in held]),
    ):
        faulty.faults.plan(always=fault)
        assert [type(outcome) for outcome in act()] == [Unknown] * many
        assert DEADLINE - 1.0 <= faulty.time.now - began <= DEADLINE
        began = faulty.time.now
    assert faulty.put_results([samples.result(entry.id) for entry in entries]) is None  # type: ignore[func-returns-value]


@pytest.mark.parametrize("fault", [faults.throttled, faults.timed_out_after, faults.conflict], ids=name)
def test_transaction_without_an_answer_ends_unknown(
    faulty: StoreOnFaultyClient, samples: Samples, fault: RequestFault
) -> None:
    held = claimed(samples.entry())
    faulty.put_entries([held])
    new, location = samples.moved(held)
    dead_letter = samples.dead_letter(samples.message(held))
    faulty.faults.plan(always=fault)
    assert isinstance(faulty.put_workflow_state(held, samples.workflow_state(), NOON), Unknown)
    assert isinstance(faulty.move_entry(held, new, location), Unknown)
    assert isinstance(faulty.bury_entry(held, samples.buried(dead_letter), dead_letter), Unknown)


def test_reads_without_an_answer_raise(faulty: StoreOnFaultyClient, samples: Samples) -> None:
    for read in (
        lambda: faulty.read_lane(samples.pk, "R#", "R#~", 5),
        lambda: faulty.get_entry(samples.entry().place),
        lambda: faulty.get_messages(["m"]),
        lambda: faulty.get_records("m"),
        lambda: faulty.get_location("m"),
        lambda: faulty.get_queue_state("t", "q"),
        lambda: faulty.list_all_queue_states(),
        lambda: faulty.read_dead_letters("t", "q", "", "~", 5),
        lambda: faulty.get_dead_letter("t", "q", "k"),
        lambda: faulty.take_credits("t", "q", CreditRequest(1, 5, NOON)),
        lambda: faulty.register("t", "q"),
    ):
        faulty.faults.plan(always=faults.timed_out_before)
        with pytest.raises(StoreUnavailable):
            read()


@each_fault
def test_reads_outlive_a_fault(faulty: StoreOnFaultyClient, samples: Samples, plan: list[RequestFault]) -> None:
    entry, message = samples.entry(), samples.message()
    faulty.put_entries([entry])
    faulty.put_messages([message])
    faulty.faults.plan(*plan)
    assert faulty.read_lane(samples.pk, "R#", "R#~", 5).items == (entry,)
    faulty.faults.plan(*plan)
    assert faulty.get_messages([message.id]) == {message.id: message}
    faulty.faults.plan(*plan)
    assert faulty.get_records(message.id).message == message


def test_waits_double_up_to_a_second_and_stay_inside_the_deadline(
    faulty: StoreOnFaultyClient, samples: Samples
) -> None:
    faulty.faults.plan(always=faults.throttled)
    faulty.put_entries([samples.entry()])
    waits = faulty.time.waits
    assert waits[:6] == [0.025, 0.05, 0.1, 0.2, 0.4, 0.8]
    assert set(waits[6:]) == {1.0}
    assert sum(waits) < DEADLINE


@pytest.mark.parametrize("many", [1, 3], ids=["single", "batch"])
def test_time_of_the_requests_counts(faulty: StoreOnFaultyClient, samples: Samples, many: int) -> None:
    """A request that times out after six seconds leaves room for one more, not for eight seconds of them."""
    faulty.faults.request_takes_s = 6.0
    faulty.faults.plan(always=faults.timed_out_before)
    faulty.put_entries(samples.entries(many))
    assert len(faulty.faults.sent) == 2


# -- reading in part ------------------------------------------------------------------------------------------------


def test_unread_messages_are_read_again_after_a_wait(faulty: StoreOnFaultyClient, samples: Samples) -> None:
    messages = samples.messages(7)
    faulty.put_messages(messages)
    faulty.faults.plan(faults.unread(5), faults.unread(5), faults.throttled, faults.unread(1))
    assert faulty.get_messages([m.id for m in messages]) == {message.id: message for message in messages}
    assert len(faulty.time.waits) == 4


def test_message_that_stays_unread_never_passes_for_missing(faulty: StoreOnFaultyClient, samples: Samples) -> None:
    messages = samples.messages(3)
    faulty.put_messages(messages)
    faulty.faults.plan(always=faults.unread(1))
    with pytest.raises(StoreUnavailable):
        faulty.get_messages([message.id for message in messages])
    assert sum(faulty.time.waits) <= DEADLINE


# -- refused outright -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", [1, 3], ids=["single", "batch"])
def test_request_refused_outright_is_not_repeated(faulty: StoreOnFaultyClient, samples: Samples, many: int) -> None:
    faulty.faults.plan(always=faults.refused)
    assert [type(outcome) for outcome in faulty.put_entries(samples.entries(many))] == [Unknown] * many
    assert [type(outcome) for outcome in faulty.put_messages(samples.messages(many))] == [Unknown] * many
    assert len(faulty.faults.sent) == 2
    assert faulty.time.waits == []


def test_request_refused_outright_does_not_take_the_answers_of_those_before_it(
    faulty: StoreOnFaultyClient, samples: Samples
) -> None:
    faulty.faults.plan(faults.works, faults.refused)
    entries = samples.entries(27)
    outcomes = faulty.put_entries(entries)
    assert [type(outcome) for outcome in outcomes] == [Applied] * 25 + [Unknown] * 2


@pytest.mark.parametrize("code", ["AccessDenied", "ValidationError", "ItemCollectionSizeLimitExceeded"])
@pytest.mark.parametrize("prepare", [prepare for prepare in LISTS if prepare.__name__ != "put_results"], ids=name)
def test_statement_refused_outright_is_unknown_and_the_others_stand(
    faulty: StoreOnFaultyClient, samples: Samples, prepare: Prepare, code: str
) -> None:
    """Above all a withdrawal: taken for done, its credit would be spent while the entry is still there."""
    step = prepare(faulty, samples, 3)
    faulty.faults.plan(statements(_1=code))
    assert [type(outcome) for outcome in step.act()] == [Applied, Unknown, Applied]


@pytest.mark.parametrize("kind", ["entries", "messages"])
def test_duplicate_that_cannot_be_read_is_unknown_and_the_others_stand(
    faulty: StoreOnFaultyClient, samples: Samples, kind: str
) -> None:
    things: list[Any] = samples.entries(3) if kind == "entries" else samples.messages(3)
    put: Any = faulty.put_entries if kind == "entries" else faulty.put_messages
    put([replace(things[1], nonce="other"), things[0]])
    faulty.faults.plan(faults.works, always=faults.timed_out_before)
    outcomes = put(things)
    # The one that was there already by our own nonce cannot be told from another's either.
    assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown, Applied]


def test_transaction_cancelled_for_no_reason_of_ours_is_unknown(faulty: StoreOnFaultyClient, samples: Samples) -> None:
    held = claimed(samples.entry())
    faulty.put_entries([held])
    faulty.faults.plan(faults.cancelled("ValidationError", "None", "None"))
    assert isinstance(faulty.move_entry(held, *samples.moved(held)), Unknown)
    assert faulty.time.waits == []


def test_transaction_throttled_in_part_is_repeated(faulty: StoreOnFaultyClient, samples: Samples) -> None:
    held = claimed(samples.entry())
    faulty.put_entries([held])
    faulty.faults.plan(
        faults.cancelled("None", "ThrottlingError", "None"),
        faults.cancelled("None", "None", "ProvisionedThroughputExceeded"),
        faults.cancelled("TransactionConflict", "TransactionConflict", "None"),
    )
    assert faulty.move_entry(held, *samples.moved(held)) == APPLIED
    assert len(faulty.time.waits) == 3


# -- the client itself ----------------------------------------------------------------------------------------------
