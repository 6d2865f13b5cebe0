"""Consumers that wait are bounded, for each token and over the deployment, whatever a token tries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.engine.queue import Queue, Runtime
from millrace.http.problems import TooManyWaiting
from millrace.http.routes import Api
from millrace.model.queue_spec import QueueSpec
from millrace.openapi import V1_ROUTES
from millrace.pull.dispatcher import LONE, Demand, Dispatcher
from millrace.pull.service import PullService
from millrace.pull.waiting_places import GRACE_MS, ProcessPlaces, TablePlaces, WaitingPlaces
from millrace.stores.memory.admin import MemoryTokens
from millrace.stores.memory.queue import MemoryBlobs, MemoryStore
from tests.conftest import Bench
from tests.pull.calling import DEFINITIONS, Caller

LATER = 20_000


@pytest.fixture
def queue(memory_bench: Bench) -> Queue:
    return memory_bench.runtime.queue(memory_bench.tenant, QueueSpec("Jobs"))


@pytest.fixture(params=[ProcessPlaces, TablePlaces])
def places(request: pytest.FixtureRequest) -> WaitingPlaces:
    made: WaitingPlaces = request.param(8, 3)
    return made


def _fill(places: WaitingPlaces, queue: Queue, token_id: str, wanted: int = 50) -> int:
    """As many places as one token gets, however often it tries."""
    got = 0
    for _ in range(wanted):
        try:
            places.enter(queue, token_id, queue.now() + LATER)
        except TooManyWaiting:
            continue
        got += 1
    return got


def test_one_token_gets_no_more_than_its_share_and_leaves_room_for_others(queue: Queue, places: WaitingPlaces) -> None:
    assert _fill(places, queue, "greedy") == 3
    assert _fill(places, queue, "other") >= 1


def test_all_tokens_together_get_no_more_than_the_deployments_places(queue: Queue, places: WaitingPlaces) -> None:
    assert sum(_fill(places, queue, f"token-{n}") for n in range(40)) == 8


def test_a_place_that_was_given_up_is_free_again(queue: Queue, places: WaitingPlaces) -> None:
    for _ in range(20):
        places.enter(queue, "t", queue.now() + LATER)()
    assert _fill(places, queue, "t") == 3


def test_a_process_that_died_leaves_its_place_free_after_its_wait(memory_bench: Bench, queue: Queue) -> None:
    places = TablePlaces(8, 3)
    assert _fill(places, queue, "t") == 3
    memory_bench.clock.now += LATER + GRACE_MS
    assert _fill(places, queue, "t") == 3


def test_tokens_spread_over_the_places() -> None:
    """So that nobody holds exactly those that another could have."""
    places = TablePlaces(400, 100)
    first, second = set(places.numbers("a")), set(places.numbers("b"))
    assert len(first) == len(second) == 100
    assert len(first & second) < 50
    assert set(places.numbers("a")) == first, "the same in every process"


def test_who_finds_something_at_once_takes_no_place(queue: Queue) -> None:
    from millrace.engine.enqueue import enqueue
    from millrace.model.message import Draft

    enqueue(queue, Draft(b"x"))
    full = ProcessPlaces(1, 1)
    full.enter(queue, "t", queue.now() + LATER)
    dispatcher = Dispatcher(schedule=LONE, places=full)
    assert len(dispatcher.take(queue, Demand("w", token_id="t"), LATER).claims) == 1
    with pytest.raises(TooManyWaiting):
        dispatcher.take(queue, Demand("w", token_id="t"), LATER)
    assert dispatcher.waiting(queue.tenant, "Jobs") == 0, "who is refused stands in no line"


@pytest.mark.parametrize("places", [ProcessPlaces, TablePlaces])
def test_a_token_waits_in_all_its_tenants_together_and_everybody_else_goes_on(
    places: Callable[[int, int], WaitingPlaces],
) -> None:
    """Asked over the API: the bound is the token's that the authoriser vouched for, not of a tenant or a queue."""
    made = places(8, 3)
    dispatcher = Dispatcher(schedule=LONE, places=made)
    runtime = Runtime(MemoryStore(), MemoryBlobs())
    api = Api(PullService(runtime, DEFINITIONS, MemoryTokens(), dispatcher), V1_ROUTES)
    assert _fill(made, runtime.queue("acme", QueueSpec("Jobs")), "greedy") == 3

    def ask(token_id: str, tenant: str, queue: str, wait_ms: int = LATER) -> Caller:
        """By default as long that nobody could have waited so long without a place."""
        caller = Caller(api, tenant)
        caller.principal = {**(caller.principal or {}), "token_id": token_id}
        answers.append(caller("POST", f"/v1/queues/{queue}/dequeue", {"wait_ms": wait_ms}).status)
        return caller

    answers: list[int] = []
    for tenant, queue in (("acme", "Jobs"), ("globex", "Jobs"), ("globex", "Wide")):
        ask("greedy", tenant, queue)
    assert answers == [429, 429, 429]
    ask("other", "acme", "Jobs", wait_ms=1)
    assert answers[3:] == [200]
    for number in range(40):
        _fill(made, runtime.queue("acme", QueueSpec("Jobs")), f"token-{number}")
    stranger = ask("newcomer", "globex", "Jobs")
    assert answers[4:] == [429], "the deployment's places are taken"
    stranger.enqueue("is taken all the same")
    assert len(stranger.dequeue()) == 1, "who need not wait needs no place"
