"""A webhook's problem counts for an hour after a call last met it."""

from __future__ import annotations

from millrace.model.webhook_problems import FORGOTTEN_MS, WebhookProblem

NOON = 1_800_000_000_000


def test_a_problem_counts_for_an_hour_after_the_last_call() -> None:
    problem = WebhookProblem("Sales", "KEY is not set", NOON - FORGOTTEN_MS, NOON)
    assert problem.counts_at(NOON + FORGOTTEN_MS - 1)
    assert not problem.counts_at(NOON + FORGOTTEN_MS)
    assert problem.ttl == (NOON + FORGOTTEN_MS) // 1000
