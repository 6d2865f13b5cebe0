"""What the retrying client makes of errors: repeated, or raised with what is known."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.model.errors import StoreUnavailable
from millrace.stores.dynamodb.client import Declined, NeverSent, NoAnswer
from millrace.stores.dynamodb.conditions import holds_token
from millrace.stores.dynamodb.retrying_client import ConditionFailed, RetryingClient
from millrace.stores.dynamodb.writes import delete


class Scripted:
    """A client that answers or raises as planned, one step a call."""

    def __init__(self, *steps: Any) -> None:
        self._steps = list(steps)

    def put_item(self, **_arguments: Any) -> Any:
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


def _calls(*steps: Any) -> RetryingClient:
    return RetryingClient(Scripted(*steps), sleep=lambda _seconds: None, chance=lambda: 0.0)  # type: ignore[arg-type]


def _declined(code: str, status: int = 400) -> Declined:
    return Declined(
        {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}, "Item": {"a": {"N": "1"}}}
    )


@pytest.mark.parametrize("error", [NoAnswer("x"), NeverSent("x"), _declined("ThrottlingException"), _declined("", 502)])
def test_silence_and_throttling_are_tried_again(error: Exception) -> None:
    assert _calls(error, {"ok": 1}).send("put_item") == {"ok": 1}


@pytest.mark.parametrize(("error", "known"), [(NoAnswer("x"), False), (NeverSent("x"), True)])
def test_write_that_must_not_happen_twice_is_repeated_only_if_it_never_left(error: Exception, known: bool) -> None:
    calls = _calls(error, {"ok": 1})
    if known:
        assert calls.send("put_item", repeatable=False) == {"ok": 1}
    else:
        with pytest.raises(StoreUnavailable, match="may have happened"):
            calls.send("put_item", repeatable=False)


def test_condition_that_fails_after_silence_says_so() -> None:
    with pytest.raises(ConditionFailed) as caught:
        _calls(NoAnswer("x"), _declined("ConditionalCheckFailedException")).send("put_item")
    assert caught.value.after_no_answer
    assert caught.value.item == {"a": {"N": "1"}}


class ThrottledBatches:
    """A client that lets `through` statements of each request through, and time pass only in waits."""

    def __init__(self, through: int) -> None:
        self._through = through
        self.now = 0.0

    def batch_execute_statement(self, Statements: list[Any]) -> Any:  # noqa: N803 (DynamoDB's name)
        passed, self._through = self._through, 0
        busy = {"Error": {"Code": "ThrottlingError"}}
        return {"Responses": [{} if number < passed else busy for number in range(len(Statements))]}

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(("through", "patience_s", "waited"), [(2, 0.25, 0.25), (2, None, 8.0), (0, 0.25, 8.0)])
def test_who_got_through_waits_for_the_throttled_no_longer_than_it_is_patient(
    through: int, patience_s: float | None, waited: float
) -> None:
    client = ThrottledBatches(through)
    calls = RetryingClient(client, monotonic=lambda: client.now, sleep=client.sleep, chance=lambda: 0.5)  # type: ignore[arg-type]
    writes = [delete("t", {"pk": {"S": "p"}, "sk": {"S": f"{n}"}}, holds_token("t")) for n in range(4)]
    answers = calls.batch(writes, patience_s=patience_s)
    assert [answer.code for answer in answers] == [""] * through + ["StoreUnavailable"] * (4 - through)
    assert waited / 2 <= client.now <= waited
