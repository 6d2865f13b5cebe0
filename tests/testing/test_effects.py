"""Effects are recorded as they happen, in a test that explores nothing as well."""

from __future__ import annotations

import pytest

from millrace.testing import Effects


def test_what_happens_is_counted_by_its_arguments_or_by_a_key() -> None:
    effects = Effects()
    charge = effects.record("charge", lambda number, at: f"ch_{number}", key=lambda number, at: number)
    mail = effects.record("mail")
    assert charge(7, at=1) == charge(7, at=2) == "ch_7"
    mail("a", subject="b")
    mail("a", subject="c")
    assert effects.happened == {"charge(7)": 2, "mail('a', subject='b')": 1, "mail('a', subject='c')": 1}


def test_a_repeat_that_is_recognised_happens_once_and_is_answered_as_the_first() -> None:
    effects = Effects()
    answers = iter(["ch_1", "ch_2"])
    charge = effects.record("charge", lambda _number, key="": next(answers), idempotent_by="key")
    assert charge(7, key="a") == charge(7, key="a") == "ch_1"
    assert charge(7, key="b") == "ch_2"
    assert effects.happened == {"charge(7)": 2}


def test_an_effect_that_fails_did_not_happen() -> None:
    effects = Effects()

    def refuse(_number: int) -> None:
        raise ValueError("no such card")

    charge = effects.record("charge", refuse)
    with pytest.raises(ValueError, match="no such card"):
        charge(7)
    assert not effects.happened


def test_a_table_is_written_and_read_as_by_boto3() -> None:
    effects = Effects()
    orders = effects.table("orders", "number")
    orders.put_item(TableName="orders", Item={"number": {"S": "7"}})
    assert orders.get_item(TableName="orders", Key={"number": {"S": "7"}})["Item"] == {"number": {"S": "7"}}
    assert orders.items() == [{"number": {"S": "7"}}]
    with pytest.raises(AttributeError, match="put_item"):
        orders.scan(TableName="orders")
    effects.begin()
    assert orders.items() == []
