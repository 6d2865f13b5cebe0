"""`explore` finds what a crash, a lost answer or a lost claim does to a handler, and shows how."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from millrace.handlers.context import AsyncContext, Context
from millrace.handlers.controls import Reject
from millrace.model.queue_spec import QueueSpec, RetryPolicy
from millrace.testing import Effects, EffectsDiffer, explore
from millrace.testing.explored_world import ProcessDied

README = Path(__file__).resolve().parents[2] / "shared" / "millrace" / "testing" / "README.md"


def shown(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)


def count(effects: Effects, number: str = "7") -> dict[str, Any]:
    return {
        "Update": {
            "TableName": "orders",
            "Key": {"number": {"S": number}},
            "UpdateExpression": "ADD charges :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }


def test_the_page_shows_a_handler_that_fails_and_one_that_is_mended() -> None:
    looks_right, mended = shown("python")
    (report,) = shown("text")
    page: dict[str, Any] = {}
    exec(looks_right, page)  # noqa: S102 (the page's own code)
    with pytest.raises(EffectsDiffer) as found:
        page["test_an_order_is_charged_once"]()
    assert report in str(found.value)
    exec(mended, page)  # noqa: S102
    page["test_an_order_is_charged_once"]()
    assert page["orders"].items() == [{"number": {"S": "7"}, "charge": {"S": "ch_7"}}]
    exec(mended.replace("idempotency_key=key", ""), page)  # noqa: S102
    with pytest.raises(EffectsDiffer, match="dies before writing the journal"):
        page["test_an_order_is_charged_once"]()


def test_a_plain_effect_happens_twice_and_every_way_to_it_is_among_the_schedules() -> None:
    effects = Effects()
    charge = effects.record("charge")
    with pytest.raises(EffectsDiffer, match=r"charge\(7\) happened 2 times; without trouble: 1") as found:
        explore(lambda given: charge(given), 7, effects=effects)
    (choices,) = re.findall(r"replay=(\[[\d, ]+\])", str(found.value))
    replayed = [int(choice) for choice in choices.strip("[]").split(",")]
    with pytest.raises(EffectsDiffer, match="2 schedules were tried"):
        explore(lambda given: charge(given), 7, effects=effects, replay=replayed)
    for fault in (1, 2, 3):  # its worker dies right after it, gets no answer to the ack, or stands still
        with_fault = [*replayed[:-2], 0, fault] if fault != 2 else [*replayed[:-2], 2]
        with pytest.raises(EffectsDiffer, match="happened 2 times"):
            explore(lambda given: charge(given), 7, effects=effects, replay=with_fault)


def test_an_effect_that_does_not_happen_is_found() -> None:
    """It is written down before it is done: whoever comes next takes it for done."""
    effects = Effects()
    charge, orders = effects.record("charge"), effects.table("orders", "number")

    def writes_first(given: str) -> None:
        key = {"number": {"S": given}}
        if not orders.get_item(TableName="orders", Key=key):
            orders.put_item(TableName="orders", Item=key)
            charge(given)

    with pytest.raises(EffectsDiffer, match=r"charge\('7'\) happened not at all; without trouble: 1"):
        explore(writes_first, "7", effects=effects)


def test_a_write_of_its_own_is_counted_and_with_the_ack_it_happens_once() -> None:
    effects = Effects()
    orders = effects.table("orders", "number")

    def beside(given: str) -> None:
        orders.update_item(**count(effects, given)["Update"])

    def with_the_ack(given: str, context: Context) -> None:
        context.transact([count(effects, given)])

    with pytest.raises(EffectsDiffer, match=r"Table orders holds .*'2'.*; without trouble: .*'1'"):
        explore(beside, "7", effects=effects)
    explored = explore(with_the_ack, "7", effects=effects, faults=2)
    assert explored.schedules > 500
    assert orders.items() == [{"number": {"S": "7"}, "charges": {"N": "1"}}]


def test_a_step_once_with_its_key_survives_every_fault() -> None:
    effects = Effects()
    charge = effects.record("charge", lambda given, key: f"ch_{given}", idempotent_by="key")

    def stepped(given: str, context: Context) -> str:
        return context.once("charge", lambda: charge(given, key=context.idempotency_key("charge")))  # type: ignore[no-any-return]

    explored = explore(stepped, "7", effects=effects)
    assert explored.schedules > 40
    assert explored.effects == {"charge('7')": 1}


def test_coroutine_functions_are_explored_alike() -> None:
    effects = Effects()

    async def answer(given: str, key: str = "") -> str:
        await asyncio.sleep(0)
        return f"ch_{given}"

    charge = effects.record("charge", answer, idempotent_by="key")

    async def plain(given: str) -> None:
        await charge(given)

    async def stepped(given: str, context: AsyncContext) -> None:
        await context.once("charge", lambda: charge(given, key=context.idempotency_key("charge")))

    with pytest.raises(EffectsDiffer, match="happened 2 times"):
        explore(plain, "7", effects=effects)
    assert explore(stepped, "7", effects=effects).effects == {"charge('7')": 1}


def test_a_dead_process_does_nothing_more() -> None:
    """Whatever the handler would do on its way out."""
    effects = Effects()
    charge, tidy = effects.record("charge", idempotent_by="key"), effects.record("tidy")
    tidied: list[str] = []

    def tidies(given: str, context: Context) -> None:
        try:
            context.once("charge", lambda: charge(given, key=context.idempotency_key("charge")))
        except BaseException as end:
            if isinstance(end, ProcessDied):
                tidied.append(given)
                tidy(given)
            raise

    explored = explore(tidies, "7", effects=effects)
    assert tidied
    assert explored.effects == {"charge('7')": 1}


def test_a_message_that_is_done_in_no_case_is_said() -> None:
    def never(_given: Any) -> None:
        raise Reject("not today")

    with pytest.raises(EffectsDiffer, match="Without any trouble the message ends as a dead letter: not today"):
        explore(never, effects=Effects())


def test_a_dead_letter_may_leave_something_undone_but_nothing_twice() -> None:
    effects = Effects()
    charge = effects.record("charge")
    once = QueueSpec("Once", delivery=RetryPolicy(max_attempts=1))
    explore(lambda given: charge(given), "7", effects=effects, queue=once)
    with pytest.raises(EffectsDiffer, match=r"charge\('7'\) happened 2 times"):
        explore(lambda given: charge(given), "7", effects=effects, queue=replace(once, delivery=RetryPolicy(2)))
