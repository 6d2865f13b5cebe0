"""A batch handler answers for each of its messages, sync or async."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from millrace.handlers.batches import MAX_BATCH, MAX_WAIT_MS, Batch, BatchSettings, Outcome, call_batch
from millrace.handlers.context import AsyncContext, Context
from millrace.handlers.controls import Reject, Retry

CONTEXT = cast("Context", type("Bare", (), {"state": None, "attempt": 1})())


def outcomes(handler: Callable[..., Any], *inputs: Any) -> list[Any]:
    """For each the result, or the type of what was raised."""
    found = call_batch(handler, [(given, CONTEXT) for given in inputs])
    return [type(one.error) if one.error else one.result for one in found]


def test_what_is_neither_failed_nor_raised_is_done() -> None:
    def handler(batch: Batch) -> None:
        assert batch.inputs == [1, 2, 3]
        assert [item.context for item in batch] == [CONTEXT] * 3
        batch[0].result = {"made": 1}
        batch[1].fail(Retry(after=5))

    assert outcomes(handler, 1, 2, 3) == [{"made": 1}, Retry, None]


def test_a_list_answers_for_each_in_their_order() -> None:
    assert outcomes(lambda batch: [item.input * 2 for item in batch], 1, 2) == [2, 4]
    assert outcomes(lambda _batch: [Reject("no"), "done"], 1, 2) == [Reject, "done"]


def test_failed_by_name_counts_before_what_is_returned() -> None:
    def handler(batch: Batch) -> list[int]:
        batch[-1].fail("not this one")
        return [item.input for item in batch]

    assert outcomes(handler, 1, 2) == [1, RuntimeError]


@pytest.mark.parametrize("returned", [[1], [1, 2, 3], 7, {"a": 1, "b": 2}, "ab"])
def test_an_answer_that_is_not_one_for_each_fails_all(returned: object) -> None:
    found = call_batch(lambda _batch: returned, [(1, CONTEXT), (2, CONTEXT)])
    assert [type(one.error) for one in found] == [TypeError, TypeError]
    assert "a result for each of its 2 items" in str(found[0].error)


def test_an_exception_of_the_whole_call_fails_every_item() -> None:
    def handler(batch: Batch) -> None:
        batch[0].result = 1
        raise ValueError("broken")

    assert outcomes(handler, 1, 2) == [ValueError, ValueError]


def test_a_result_that_json_cannot_spell_fails_its_own_item() -> None:
    assert outcomes(lambda _batch: [object(), 2], 1, 2) == [TypeError, 2]


def test_a_coroutine_function_awaits_its_contexts() -> None:
    async def handler(batch: Batch) -> list[Any]:
        assert all(isinstance(item.context, AsyncContext) for item in batch)
        batch[1].fail(Retry())
        return [item.context.attempt for item in batch]

    async def broken(batch: Batch) -> None:
        raise ValueError(len(batch))

    assert outcomes(handler, 1, 2) == [1, Retry]
    assert outcomes(broken, 1, 2) == [ValueError, ValueError]


def test_an_outcome_gives_or_raises() -> None:
    assert Outcome(3).give() == 3
    with pytest.raises(KeyError):
        Outcome(error=KeyError("x")).give()


def test_a_batch_is_a_sequence() -> None:
    batch = Batch([])
    assert (len(batch), list(batch), batch[:1], batch.inputs) == (0, [], (), [])


@pytest.mark.parametrize(
    ("size", "wait_ms", "problem"),
    [
        (0, 0, "`batch` is 1 to"),
        (MAX_BATCH + 1, 0, "`batch` is 1 to"),
        (True, 0, "`batch` is 1 to"),
        (2, -1, "`wait_ms` is 0 to"),
        (2, MAX_WAIT_MS + 1, "`wait_ms` is 0 to"),
        (None, 5, "needs `batch`"),
    ],
)
def test_settings_out_of_range_are_refused(size: int | None, wait_ms: int, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        BatchSettings.of(size, wait_ms)


def test_who_failed_before_or_has_one_attempt_runs_alone() -> None:
    assert BatchSettings.of(None, 0) is None
    assert BatchSettings.of(5, 10) == BatchSettings(5, 10)
    assert [BatchSettings.alone(attempt, 3) for attempt in (1, 2)] == [False, True]
    assert BatchSettings.alone(1, 1)
