"""Places in a file, and findings that show them."""

from __future__ import annotations

from millrace.definitions.language.source import MAX_EXCERPT, Code, Diagnostics, Source, Span, did_you_mean

TEXT = "one\r\ntwo three\nfour"


def test_a_place_is_a_line_and_a_column_from_one() -> None:
    source = Source("f", TEXT)
    assert [source.place(offset) for offset in (0, 3, 5, 9, 15)] == [(1, 1), (1, 4), (2, 1), (2, 5), (3, 1)]
    assert [source.line(number) for number in (1, 2, 3)] == ["one", "two three", "four"]


def test_a_finding_shows_its_line_with_a_caret_and_the_hint() -> None:
    report = Diagnostics()
    report.warning(Source("f", TEXT), Span(9, 14), Code.UNKNOWN, "there is no `three`", "write `3`")
    (finding,) = report.findings
    assert str(finding) == "f:2:5: warning: there is no `three`\n  | two three\n  |     ^^^^^\n  = write `3`"


def test_of_a_long_line_a_part_is_shown() -> None:
    report = Diagnostics()
    report.error(Source("f", "x" * 5_000), Span(4_000, 4_001), Code.SYNTAX, "here")
    assert all(len(line) < MAX_EXCERPT + 10 for line in str(report.findings[0]).splitlines())


def test_findings_come_in_the_order_of_the_file() -> None:
    report, source = Diagnostics(), Source("f", TEXT)
    for start in (9, 0, 5):
        report.error(source, Span(start, start + 1), Code.TYPE, f"at {start}")
    assert [finding.message for finding in report.sorted] == ["at 0", "at 5", "at 9"]


def test_the_nearest_name_is_offered() -> None:
    assert did_you_mean("shrads", ("shards", "filter")) == "did you mean `shards`?"
    assert did_you_mean("zzz", ("shards",), "write a name") == "write a name"
