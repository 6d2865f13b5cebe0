"""Reading a block: known names, once each, values of the right kind and in range; else the default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from millrace.definitions.language.parser import decode, parse
from millrace.definitions.language.settings import BlockReader
from millrace.definitions.language.source import Diagnostics


def reader(members: str, kind: str = "queue") -> tuple[BlockReader, Diagnostics]:
    report = Diagnostics()
    parsed = parse(decode("t", f"{kind} Q {{ {members} }}".encode(), report), report)
    return BlockReader(parsed, report, kind, parsed.file.blocks[0].members), report


@pytest.mark.parametrize(
    ("members", "read", "value"),
    [
        ("shards: 3", lambda block: block.whole("shards", 1), 3),
        ("lease_seconds: 2.5", lambda block: block.number("lease_seconds", 1.0), 2.5),
        ("project: 'p'", lambda block: block.text("project"), "p"),
        ("fed_by: api", lambda block: block.choice("fed_by", ("api",), None), "api"),
        ("", lambda block: block.whole("shards", 7), 7),
        ("delivery { max_attempts: 2 }", lambda block: block.block("delivery").whole("max_attempts", 4), 2),
    ],
)
def test_a_value_is_read(members: str, read: Callable[[BlockReader], Any], value: object) -> None:
    block, report = reader(members)
    assert read(block) == value
    assert report.findings == []


@pytest.mark.parametrize("members", ["shards: 0", "shards: 101", "shards: 'two'", "shards: 1.5", "shards: true"])
def test_a_value_of_another_kind_or_out_of_range_is_reported_and_the_default_stands(members: str) -> None:
    block, report = reader(members)
    assert block.whole("shards", 7) == 7
    assert len(report.findings) == 1


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ("shrads: 1", "there is no `shrads` in `queue`"),
        ("shards: 1  shards: 2", "`shards` stands here twice"),
        ("max_attempts: 2", "`max_attempts` does not stand in `queue`"),
        ("delivery: 2", "`delivery` is written differently here"),
    ],
)
def test_a_name_that_does_not_belong_is_reported(members: str, message: str) -> None:
    _, report = reader(members)
    assert [finding.message for finding in report.findings] == [message]
