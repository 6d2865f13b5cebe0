"""A consumer's loops without threads or an event loop: each step by hand."""

from __future__ import annotations

from typing import Any

from millrace.client import Client, Delivery
from millrace.client.loops import Call, ConsumerLoops, Spawn, Wait


class Stepped(ConsumerLoops[Delivery]):
    """Driven by a test."""

    def __init__(self, client: Client, concurrency: int) -> None:
        super().__init__(client, concurrency, "me", None, 30.0, lambda: 1.0, lambda: 0.0, lambda: 0)

    def _notify(self) -> None:
        return

    def drive(self, loop: Any) -> list[Spawn]:
        """Until it waits or ends: what it spawned."""
        spawned: list[Spawn] = []
        found: Any = None
        while True:
            try:
                effect = loop.send(found)
            except StopIteration:
                return spawned
            if isinstance(effect, Wait):
                return spawned
            found = effect.function(*effect.args) if isinstance(effect, Call) else spawned.append(effect)  # type: ignore[func-returns-value]


def test_a_limit_takes_no_more_messages_than_asked_for(client: Client) -> None:
    consumer = Stepped(client, concurrency=10)
    consumer.handle_delivery("Jobs", wait_ms=0)(lambda _job: None)
    for number in range(3):
        client.enqueue("Jobs", number)
    fetch, _beat = consumer.drive(consumer._start_loop(drain=False, limit=2))
    assert len(consumer.drive(fetch.loop)) == 2
    assert len(client.claim("Jobs", max=10)) == 1


def test_more_than_a_hundred_claims_are_extended_in_calls_of_a_hundred(client: Client) -> None:
    consumer = Stepped(client, concurrency=150)
    consumer.handle_delivery("Jobs", wait_ms=0, lease_ms=30_000)(lambda _job: None)
    for _ in range(150):
        client.enqueue("Jobs", 1)
    fetch, _ = consumer.drive(consumer._start_loop(drain=False, limit=None))
    consumer.drive(fetch.loop)
    assert len(consumer._held) == 150
    sizes = []
    consumer._beats = dict.fromkeys(consumer._beats, 0.0)
    beat = consumer._beat_loop()
    effect: Any = beat.send(None)
    while isinstance(effect, Call):
        sizes.append(len(effect.args[1]))
        effect = beat.send(effect.function(*effect.args))
    assert sizes == [100, 50]
