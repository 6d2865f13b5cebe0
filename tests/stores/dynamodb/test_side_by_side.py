"""Requests at the same time: all of them made, in their order, and an error of one is everybody's."""

from __future__ import annotations

import threading

import pytest

from millrace.stores.dynamodb.side_by_side import ABREAST, side_by_side


def test_what_each_gives_comes_back_in_order() -> None:
    assert side_by_side(lambda number: number * number, range(50)) == [number * number for number in range(50)]
    assert side_by_side(str, []) == []


def test_so_many_wait_at_the_same_time() -> None:
    together = threading.Barrier(ABREAST, timeout=30)
    side_by_side(lambda _number: together.wait(), range(2 * ABREAST))


def test_one_alone_stays_in_its_thread() -> None:
    assert side_by_side(lambda _: threading.current_thread(), [1]) == [threading.current_thread()]


def test_an_error_is_raised_after_the_others_are_over() -> None:
    over: list[int] = []

    def call(number: int) -> None:
        if number in (3, 5):
            raise ValueError(str(number))
        over.append(number)

    with pytest.raises(ValueError, match="3"):
        side_by_side(call, range(20))
    assert sorted(over) == [number for number in range(20) if number not in (3, 5)]
