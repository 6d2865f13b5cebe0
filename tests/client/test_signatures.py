"""What `help`, editors and mypy see of the client: names, types and docstrings, nothing passed through unseen."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from millrace.client import AsyncClient, AsyncConsumer, AsyncDelivery, Client, Consumer, Delivery, EnqueueReceipt

if TYPE_CHECKING:
    from typing import assert_type

KINDS = (Client, AsyncClient, Delivery, AsyncDelivery, Consumer, AsyncConsumer)
#: Drivers of the steps, for the client itself.
DRIVERS = {"run", "parts", "pause"}
HIDDEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def methods(kind: type) -> dict[str, Callable[..., Any]]:
    drivers = set() if kind in (Consumer, AsyncConsumer) else DRIVERS
    return {
        name: getattr(kind, name)
        for name in dir(kind)
        if not name.startswith("_") and name not in drivers and callable(getattr(kind, name))
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_method_shows_its_parameters_with_their_types(kind: type) -> None:
    found = methods(kind)
    assert len(found) >= 5
    for name, method in found.items():
        assert method.__doc__, name
        assert method.__name__ == name
        first, *rest = inspect.signature(method).parameters.values()
        assert first.name == "self", name
        assert not [parameter for parameter in rest if parameter.kind in HIDDEN], name
        assert not [parameter for parameter in rest if parameter.annotation is inspect.Parameter.empty], name


def test_help_shows_a_call_as_it_is_written(client: Client) -> None:
    page = pydoc.plain(pydoc.render_doc(Client))
    assert "enqueue(self, queue: 'str', body: 'Any', *, idempotency_key: 'str | None' = None" in page
    assert "-> 'EnqueueReceipt'" in page
    assert "Enqueue one message: bytes as they are" in page
    assert "idempotency_key: 'str | None'" in pydoc.plain(pydoc.render_doc(client.enqueue))
    assert list(inspect.signature(client.ack).parameters) == ["queue", "claim", "result"]


def test_a_call_through_the_class_does_the_same(client: Client) -> None:
    receipt = Client.enqueue(client, "Jobs", {"n": 1})
    assert b"".join(Client.stream_body(client, "Jobs", receipt.message_id)) == b'{"n":1}'


if TYPE_CHECKING:

    def checked_by_mypy(client: Client, delivery: Delivery) -> None:
        """Never run: mypy fails where a type is not this one, or where an error is not found."""
        assert_type(client.enqueue("Jobs", {"n": 1}, delay_ms=5, labels=["a"]), EnqueueReceipt)
        assert_type(client.dequeue("Jobs", max=10), list[Delivery])
        assert_type(delivery.extend(1_000), datetime)
        assert_type(delivery.attempt, int)
        client.enqueue("Jobs", 1, dealy_ms=5)  # type: ignore[call-arg]
        client.dequeue("Jobs", most=10)  # type: ignore[call-arg]
        delivery.nack(delay_ms="soon")  # type: ignore[arg-type]
        consumer = Consumer(client, concurrency="many")  # type: ignore[arg-type]
        consumer.handle_delivery("Jobs", lease=5)  # type: ignore[call-arg]

    async def checked_by_mypy_awaited(client: AsyncClient, delivery: AsyncDelivery) -> None:
        assert_type(await client.enqueue("Jobs", b"bytes", priority="high"), EnqueueReceipt)
        assert_type(await client.dequeue("Jobs", wait_ms=20_000), list[AsyncDelivery])
        assert_type(await delivery.read_body(), bytes)
        await delivery.ack(reslut=1)  # type: ignore[call-arg]
        await AsyncConsumer(client).run(limit="one")  # type: ignore[arg-type]
