"""Jobs by their key, and filters as they are stored."""

from __future__ import annotations

import pytest

from millrace.model.admin_jobs import filter_document, job_id, read_filter
from millrace.model.message import EVERY_DEAD_LETTER, DeadLetterFilter, DeadLetterReason


def test_a_repeated_request_makes_the_same_job_and_no_other_does() -> None:
    ids = {job_id(*parts) for parts in (("t", "q", "k"), ("tq", "", "k"), ("t", "qk", ""), ("t", "q", "l"))}
    assert len(ids) == 4
    assert job_id("t", "q", "k") == job_id("t", "q", "k")


@pytest.mark.parametrize(
    "only",
    [
        EVERY_DEAD_LETTER,
        DeadLetterFilter(failed_from=5, failed_before=9, error_text="x"),
        DeadLetterFilter(reason=DeadLetterReason.EXPIRED, project="", correlation_id="c"),
    ],
)
def test_a_filter_is_read_as_it_was_stored(only: DeadLetterFilter) -> None:
    assert read_filter(filter_document(only)) == only


def test_what_is_not_asked_for_is_not_stored() -> None:
    assert filter_document(EVERY_DEAD_LETTER) == {}
    assert filter_document(DeadLetterFilter(project="p")) == {"project": "p"}
