"""Text to tree: every syntax error of a file in one run, and the rest of the file kept."""

from __future__ import annotations

import pytest

from millrace.definitions.language.parser import MAX_SYNTAX_ERRORS, decode, parse
from millrace.definitions.language.source import MAX_SOURCE_BYTES, Diagnostics
from millrace.definitions.language.syntax import Word


def parsed(text: bytes) -> tuple[list[str], list[str]]:
    """The kinds of the blocks that were read, and the messages."""
    report = Diagnostics()
    file = parse(decode("t", text, report), report).file
    return [block.label.text for block in file.blocks if isinstance(block.label, Word)], [
        finding.message for finding in report.findings
    ]


def test_two_errors_are_found_in_one_run_and_what_is_right_is_kept() -> None:
    blocks, found = parsed(b"app A { x: 1 + }\napp B { y 2 }\napp C { z: 3 }\n")
    assert len(found) == 2
    assert blocks == ["A", "B", "C"]


def test_a_block_without_its_end_is_closed() -> None:
    blocks, found = parsed(b"app A { queue Q { shards: 2\n")
    assert blocks == ["A"]
    assert found == ["this block is not closed"]


@pytest.mark.parametrize("text", [b"app A { x: \xff }", b" " * (MAX_SOURCE_BYTES + 1)])
def test_what_cannot_be_read_is_reported_and_left_out(text: bytes) -> None:
    blocks, found = parsed(text)
    assert (blocks, len(found)) == ([], 1)


def test_parsing_ends_however_many_errors_there_are() -> None:
    _, found = parsed(b"app A { " + b"x: + \n" * 200 + b"}")
    assert 0 < len(found) <= MAX_SYNTAX_ERRORS


def test_comments_and_tokens_are_kept_for_the_formatter() -> None:
    report = Diagnostics()
    whole = parse(decode("t", b"// first\napp A { x: 1 } // last\n", report), report)
    assert [str(comment) for comment in whole.comments] == ["// first", "// last"]
    assert [str(token) for token in whole.tokens_of(whole.file.blocks[0].span)] == ["app", "A", "{", "x", ":", "1", "}"]
