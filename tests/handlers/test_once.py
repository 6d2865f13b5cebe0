"""`once`, `idempotency_key` and `transact` in coroutine functions, and where there is no table to write to."""

from __future__ import annotations

import asyncio

import pytest

from millrace.handlers.calling import call
from millrace.handlers.context import AsyncContext, Context
from millrace.model.errors import InvalidTransaction
from millrace.webhooks.call_context import CallContext


def test_a_coroutine_function_has_its_steps_once() -> None:
    runs: list[str] = []

    async def handle(_given: None, context: AsyncContext) -> tuple[int, int]:
        async def charge() -> int:
            await asyncio.sleep(0)
            runs.append(context.idempotency_key("charge"))
            return 7

        return await context.once("charge", charge), await context.once("charge", charge)

    assert call(handle, None, CallContext("c", None)) == (7, 7)
    assert len(runs) == 1


@pytest.mark.parametrize("context", [CallContext("c", None), AsyncContext(CallContext("c", None))])
def test_without_a_table_of_the_queue_there_is_no_transaction(context: Context | AsyncContext) -> None:
    with pytest.raises(InvalidTransaction, match="only a worker of the deployment"):
        context.transact([])


def test_two_calls_without_a_message_are_two_pieces_of_work() -> None:
    one, two = CallContext("c", None), CallContext("c", None)
    assert one.idempotency_key("charge") == one.idempotency_key("charge") != two.idempotency_key("charge")
