"""Polls find what may be claimed: by priority, age and filter."""

from __future__ import annotations

from millrace.engine.claim import body_of, claim
from millrace.engine.enqueue import enqueue, enqueue_all
from millrace.engine.finish import nack, release
from millrace.engine.poll import Filter
from millrace.model.message import Draft
from tests.conftest import Bench
from tests.engine.steps import BROKEN, EXACT, only


def test_higher_priority_first_then_oldest_first_retries_included(bench: Bench) -> None:
    queue = bench.queue(delivery=EXACT)
    priorities: list[str | int] = ["low", "high", "normal", "critical", "high", 9_999]
    for number, priority in enumerate(priorities):
        enqueue(queue, Draft(b"%d" % number, priority=priority))
        bench.clock.forward(1)
    first = claim(queue, owner="w", limit=3).claims
    assert [body_of(queue, c) for c in first] == [b"5", b"3", b"1"]
    for held in first:
        nack(queue, held.entry, held.message, BROKEN)
    bench.clock.forward(1_000)
    assert [body_of(queue, c) for c in claim(queue, owner="w", limit=9).claims] == [
        b"5", b"3", b"1", b"4", b"2", b"0",
    ]  # fmt: skip


def test_a_claim_filter_takes_only_what_matches(bench: Bench) -> None:
    queue = bench.queue()
    enqueue(queue, Draft(b"a", project="billing", labels=("eu", "gold"), priority=10))
    enqueue(queue, Draft(b"b", project="billing", labels=("us",), priority=300))
    enqueue(queue, Draft(b"c", project="search", labels=("eu",), priority=20))

    def bodies(wanted: Filter) -> list[bytes]:
        claims = claim(queue, owner="w", limit=10, only=wanted).claims
        release(queue, [c.entry for c in claims])
        return [body_of(queue, c) for c in claims]

    assert bodies(Filter(project="billing")) == [b"b", b"a"]
    assert bodies(Filter(labels=("eu",))) == [b"c", b"a"]
    assert bodies(Filter(labels=("eu", "gold"))) == [b"a"]
    assert bodies(Filter(max_priority=20)) == [b"c", b"a"]
    assert bodies(Filter(project="nobody")) == []


def test_a_filter_finds_its_match_behind_many_others(bench: Bench) -> None:
    queue = bench.queue()
    enqueue_all(queue, [Draft(b"", project="many")] * 150 + [Draft(b"found", project="one")])
    assert body_of(queue, only(claim(queue, owner="w", only=Filter(project="one")))) == b"found"
