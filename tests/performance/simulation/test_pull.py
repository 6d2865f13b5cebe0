"""The pull API in a simulated Lambda: its 6 MB, S3's 403, an answer that is lost on the way."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from millrace.aws.blobs import S3Blobs
from millrace.http.routes import Api
from millrace.model.message import DeadLetterReason
from millrace.openapi import V1_ROUTES
from millrace.pull.service import PullService
from millrace.stores.memory.admin import MemoryTokens
from tests.performance.simulation.aws import Function, Lambda, SimulatedS3
from tests.performance.simulation.scenarios import TENANT, World, dead_letters, world
from tests.pull.calling import DEFINITIONS, Caller

JOBS, FORGETFUL = "/v1/queues/Jobs", "/v1/queues/Forgetful"


class ConsumerFunction:
    """The consumer function, called as API Gateway calls it: its answer has to fit into what Lambda returns."""

    def __init__(self, one: World) -> None:
        self._world = one
        self._tokens = MemoryTokens()
        self.s3 = SimulatedS3(one.time)
        client: Any = self.s3
        one.blobs = S3Blobs("bodies", client)
        self._cloud = Lambda(one.time)
        self._cloud.add(Function("consumer", self._make))
        api: Any = self
        self.call = Caller(api, TENANT)

    def _make(self) -> Callable[[dict[str, Any], Any], Any]:
        api = Api(PullService(self._world.runtime(), DEFINITIONS, self._tokens), V1_ROUTES)
        return lambda event, _context: api.handle(event)

    def handle(self, event: dict[str, Any]) -> Any:
        return self._cloud.invoke("consumer", event)

    def play(self, work: Callable[[Caller], None]) -> None:
        """Let a caller do its work in virtual time."""
        task = self._world.time.spawn("caller", lambda: work(self.call))
        self._world.time.run_until(lambda: task.over, 600_000)


@pytest.fixture
def one() -> Iterator[World]:
    with world(seed=3) as made:
        yield made


def test_a_lost_body_is_a_dead_letter_and_hides_no_other_message(one: World) -> None:
    """The role may not list the bucket: S3 says 403 of what is missing."""
    consumer = ConsumerFunction(one)

    def work(call: Caller) -> None:
        call("POST", f"{JOBS}/messages/raw", content=random.Random(1).randbytes(100_000))
        for number in range(3):
            call.enqueue(number)
        consumer.s3.objects.clear()
        held = call("POST", f"{JOBS}/dequeue", {"max": 10})
        assert held.status == 200, held.json
        assert sorted(message["body"] for message in held.json["messages"]) == [0, 1, 2]

    consumer.play(work)
    queue = one.runtime().queue(TENANT, DEFINITIONS.queue("Jobs").spec)
    assert [dead_letter.reason for dead_letter in dead_letters(one, queue)] == [DeadLetterReason.BODY_LOST]


def test_every_message_is_handed_out_in_answers_that_lambda_returns(one: World) -> None:
    """Quotes are escaped in JSON and once more in Lambda's own: two megabytes of them would be nine."""
    consumer = ConsumerFunction(one)
    seen: list[int] = []

    def work(call: Caller) -> None:
        for _ in range(75):
            call.enqueue('"' * 30_000)
        for _ in range(20):
            messages = call("POST", f"{JOBS}/dequeue", {"max": 100}).json["messages"]
            seen.extend(message["attempt"] for message in messages)
            for message in messages:
                assert call("POST", f"{JOBS}/ack", {"claim": message["claim"]}).status == 200
            if not messages:
                break

    consumer.play(work)
    assert seen == [1] * 75, "each once, and nobody was charged for an answer that did not arrive"


def test_an_ack_whose_answer_was_lost_is_its_own_when_it_is_repeated(one: World) -> None:
    """The queue keeps no results: only the handle can tell."""
    consumer = ConsumerFunction(one)

    def work(call: Caller) -> None:
        call.enqueue("x", queue="Forgetful")
        (held,) = call("POST", f"{FORGETFUL}/dequeue", {"lease_ms": 60_000}).json["messages"]
        assert call("POST", f"{FORGETFUL}/ack", {"claim": held["claim"]}).status == 200
        one.time.sleep(10)  # the caller heard nothing and tries again
        assert call("POST", f"{FORGETFUL}/ack", {"claim": held["claim"]}).status == 200

    consumer.play(work)
