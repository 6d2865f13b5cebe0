"""Each condition in both forms, and PynamoDB's own as the oracle of the first."""

from __future__ import annotations

import pytest
from pynamodb.expressions.condition import Condition as PynamoCondition

from millrace.stores.dynamodb.conditions import (
    ABSENT,
    PRESENT,
    Condition,
    at_most,
    claim_live,
    claim_over,
    counter_is,
    equal,
    holds_token,
    missing,
    nonce_is,
    nonce_is_not,
    version_is,
)
from millrace.stores.dynamodb.tables import EntryItem, QueueStateItem, SlotItem, WorkflowStateItem

ENTRY, STATE = EntryItem, QueueStateItem
PAIRS: list[tuple[Condition, PynamoCondition]] = [
    (holds_token("t"), ENTRY.token == "t"),
    (version_is(3) & claim_over(9), (ENTRY.version == 3) & (ENTRY.until <= 9)),
    (holds_token("t") & claim_live(9), (ENTRY.token == "t") & (ENTRY.until > 9)),
    (
        (nonce_is("n") & version_is(0)).or_absent(),
        ENTRY.pk.does_not_exist() | (ENTRY.nonce == "n") & (ENTRY.version == 0),
    ),
    (nonce_is_not("n").or_absent(), WorkflowStateItem.pk.does_not_exist() | (WorkflowStateItem.nonce != "n")),
    (
        (at_most("until", 9) | holds_token("t")).or_absent(),
        SlotItem.pk.does_not_exist() | ((SlotItem.until <= 9) | (SlotItem.token == "t")),
    ),
    (missing("depth") | at_most("depth", 5), STATE.depth.does_not_exist() | (STATE.depth <= 5)),
    (counter_is("epoch", 0), STATE.epoch.does_not_exist() | (STATE.epoch == 0)),
    (counter_is("epoch", 2), STATE.epoch == 2),
    (ABSENT, ENTRY.pk.does_not_exist()),
    (PRESENT, ENTRY.pk.exists()),
]


def plain(text: str, names: dict[str, str], values: dict[str, dict[str, str]]) -> str:
    """An expression with its placeholders filled in, without blanks and parentheses."""
    for placeholder, name in sorted(names.items(), reverse=True):
        text = text.replace(placeholder, name)
    for placeholder, value in sorted(values.items(), reverse=True):
        text = text.replace(placeholder, repr(value))
    return text.replace(" ", "").replace("(", "").replace(")", "")


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
def test_expression_says_what_pynamodb_says(ours: Condition, theirs: PynamoCondition) -> None:
    names: dict[str, str] = {}
    values: dict[str, dict[str, str]] = {}
    text = theirs.serialize(names, values)  # type: ignore[arg-type]
    expected = plain(text, {placeholder: name for name, placeholder in names.items()}, values)
    assert plain(*ours.expression()) == expected


def test_where_of_a_batch_says_the_same_in_partiql() -> None:
    assert (version_is(3) & claim_over(9)).where() == '"version" = ? AND "until" <= ?'
    assert (equal("a", 1) | equal("b", 2)).where() == '("a" = ? OR "b" = ?)'
    assert (version_is(3) & claim_over(9)).values == ({"N": "3"}, {"N": "9"})


def test_an_or_inside_an_and_keeps_its_parentheses() -> None:
    text, _, _ = (equal("state", "running") & (at_most("until", 1) | equal("token", "t"))).expression()
    assert text == "#c0 = :c0 AND (#c1 <= :c1 OR #c2 = :c2)"


def test_a_condition_that_holds_for_a_missing_item_cannot_be_joined() -> None:
    with pytest.raises(ValueError, match="or_absent comes last"):
        _ = nonce_is("n").or_absent() & version_is(1)
