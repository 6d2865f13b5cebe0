"""A run in figures: for people as a table, for programs as JSON, for schedulers as an exit code."""

from __future__ import annotations

import json

import pytest

from functions.bulk_enqueue.job import exit_code
from millrace.spark.report import Report, table

COUNTS = {"inserted": 12_345, "duplicate": 20, "conflict": 0, "rejected": 3, "failed": 0}
REASONS = [("duplicate", "A message of its key was there already.", 20), ("rejected", "invalid_message: é", 3)]
SUMMARY = Report("enqueue", "run-1", "Jobs", COUNTS, REASONS, {"units": 24_690.04, "waited_s": 0.0}, {"cycles": []})


def test_the_table_has_every_count_their_sum_and_the_reasons() -> None:
    assert SUMMARY.as_table() == (
        "enqueue · queue Jobs · run run-1\n"
        "\n"
        "inserted   12,345\n"
        "duplicate      20\n"
        "conflict        0\n"
        "rejected        3\n"
        "failed          0\n"
        "rows       12,368\n"
        "\n"
        "20  duplicate  A message of its key was there already.\n"
        " 3  rejected   invalid_message: é\n"
        "\n"
        "24,690 write units, 0 a second\n"
    )


def test_a_run_without_reasons_shows_none() -> None:
    shown = Report("enqueue", "run-1", "Jobs", {"inserted": 0}).as_table()
    assert shown.splitlines()[1:] == ["", "inserted  0", "rows      0"]


def test_the_json_says_the_same_to_programs() -> None:
    text = SUMMARY.as_json()
    assert json.loads(text) == {
        "action": "enqueue",
        "run": "run-1",
        "queue": "Jobs",
        "rows": 12_368,
        "counts": COUNTS,
        "reasons": [
            {"outcome": "duplicate", "reason": "A message of its key was there already.", "rows": 20},
            {"outcome": "rejected", "reason": "invalid_message: é", "rows": 3},
        ],
        "spent": {"units": 24_690.0, "waited_s": 0.0},
        "cycles": [],
    }
    assert text.endswith("}\n")
    assert "é" in text


def test_a_table_is_as_wide_as_its_widest_cells_and_ends_no_line_with_blanks() -> None:
    assert table([("a", "1"), ("long", "1,000"), ("b", "")]) == ["a         1", "long  1,000", "b"]
    assert table([]) == []


@pytest.mark.parametrize(
    ("counts", "usual", "strict"),
    [
        ({"inserted": 5, "duplicate": 5, "failed": 0, "rejected": 0, "conflict": 0}, 0, 0),
        ({"inserted": 5, "failed": 1}, 1, 1),
        ({"inserted": 5, "rejected": 1}, 0, 1),
        ({"inserted": 5, "conflict": 1}, 0, 1),
        ({"queued": 5, "missing": 1}, 0, 1),
        ({"queued": 5, "done": 1, "dead": 3}, 0, 0),
        ({"matching": 9}, 0, 0),
        ({}, 0, 0),
    ],
)
def test_the_exit_code_says_whether_somebody_must_look(counts: dict[str, int], usual: int, strict: int) -> None:
    summary = Report("enqueue", "run-1", "Jobs", counts)
    assert (exit_code(summary, strict=False), exit_code(summary, strict=True)) == (usual, strict)


def test_the_table_says_how_fast_what_was_throttled_and_where_the_rejected_rows_are() -> None:
    spent = {"units": 1_000.0, "units_per_s": 90.0, "units_per_s_asked": 100.0, "throttled": 25.0, "throttled_s": 3.0}
    report = Report("enqueue", "run-1", "Jobs", {"rejected": 1}, (), spent, rejects="s3://b/run-1/rejects")
    assert report.as_table().endswith(
        "1,000 write units, 90 a second of 100 asked; throttled 25 writes in 3 s of tasks\n"
        "\n"
        "The rejected rows are in s3://b/run-1/rejects.\n"
    )
    assert json.loads(report.as_json())["rejects"] == "s3://b/run-1/rejects"
