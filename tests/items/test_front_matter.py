"""Markdown with YAML front matter, from strangers: read exactly, or refused with a reason; never a surprise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.items.front_matter import MAX_HEAD, Malformed, read_markdown


def read(head: str, body: str = "") -> dict[str, Any]:
    return read_markdown(f"---\n{head}\n---\n{body}".encode())


def problem(data: bytes) -> str:
    with pytest.raises(Malformed) as refused:
        read_markdown(data)
    return str(refused.value)


def problem_of(head: str) -> str:
    return problem(f"---\n{head}\n---\n".encode())


def test_fields_and_text_are_read() -> None:
    head = "id: billing-17\nstatus: pending\ndepends_on: [billing-3, 4]\npriority: 7\nnested: {a: [1, 2.5, null, true]}"
    assert read(head, "\nWhat is to be done\n\n---\nand more\n") == {
        "id": "billing-17",
        "status": "pending",
        "depends_on": ["billing-3", 4],
        "priority": 7,
        "nested": {"a": [1, 2.5, None, True]},
        "text": "What is to be done\n\n---\nand more",
    }


@pytest.mark.parametrize(
    "data",
    [
        b"---\nid: a\n---\nbody\n",
        b"---\r\nid: a\r\n---\r\nbody\r\n",
        b"\xef\xbb\xbf---\nid: a\n---\nbody",
        b"---  \nid: a\n---\nbody",
        b"---\nid: a\n---\n\n\nbody\n\n",
    ],
    ids=["plain", "CRLF", "BOM", "blanks behind the fence", "blank lines"],
)
def test_line_ends_marks_and_blanks_make_no_difference(data: bytes) -> None:
    assert read_markdown(data) == {"id": "a", "text": "body"}


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        (b"---\nid: a\n---", {"id": "a"}),
        (b"---\n---\n", {}),
        (b"---\n---", {}),
        (b"---\n\n---\n", {}),
        (b"---\n# only a remark\n---\n", {}),
    ],
)
def test_a_head_without_a_body_and_an_empty_head_are_read(data: bytes, fields: dict[str, Any]) -> None:
    assert read_markdown(data) == {**fields, "text": ""}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "does not begin with ---"),
        (b"# a title\n", "does not begin with ---"),
        (b"\n---\nid: a\n---\n", "does not begin with ---"),
        (b"----\nid: a\n---\n", "does not begin with ---"),
        (b"---", "does not end with ---"),
        (b"---\nid: a\n", "does not end with ---"),
        (b"---\nid: a\n ---\n", "does not end with ---"),
        (b"---\nid: a---\n", "does not end with ---"),
        (b"---\nid: \xff\n---\n", "not UTF-8"),
        ("---\nid: a\n---\n".encode("utf-16"), "not UTF-8"),
        (b"---\nid: a\n---\n\xc3", "not UTF-8"),
    ],
)
def test_a_file_of_another_form_is_refused(data: bytes, says: str) -> None:
    assert says in problem(data)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        ("a: &x 1\nb: *x", "alias"),
        ("a: &x [1]\nb: {<<: *x}", "alias"),
        ("a: &a [*a]", "alias"),
        ("id: a\nid: b", "name twice"),
        ("nested: {a: 1, a: 2}", "name twice"),
        ("a: 1\n<<: {a: 2}", "name twice"),
        ("list: [{a: 1, a: 1}]", "name twice"),
        ("on: push", "name that is no text"),
        ('1: x\n"1": y', "name that is no text"),
        ("nested: {2026-01-01: x}", "name that is no text"),
        ("? [a, b]\n: x", "not YAML"),
        ("- a\n- b", "no list of names and values"),
        ("just words", "no list of names and values"),
        ("text: mine", "a field `text`"),
        ("a: [1, 2", "not YAML in line"),
        ("a: b: c", "not YAML in line 2"),
        ("a: \x07", "not YAML"),
        ("a: 1\n--- b\nc: 2", "not YAML"),
        ("a: !!python/object/apply:os.system [echo]", "not YAML"),
        ("a: !!python/tuple [1]", "not YAML"),
        ("a: !other 1", "not YAML"),
        ("a: !!binary aGk=", "JSON has not: bytes"),
        ("a: !!set {b, c}", "JSON has not: set"),
        ("a: !!omap [b: 1]", "JSON has not: tuple"),
        ("a: .nan", "JSON has not: float"),
        ("a: [-.inf]", "JSON has not: float"),
        ("a: 2026-13-45", "cannot be read"),
        ("a: " + "1" * 5_000, "cannot be read"),
        ("a: 0x" + "f" * 20_000, "cannot be read"),
        ("a: 1" + ":59" * 3_000, "cannot be read"),
        (r'a: "\ud800"', "cannot be read"),
        (r'"\udfff": a', "cannot be read"),
        ("a: " + "[" * 600, "cannot be read"),
        ("- " * 5_000, "cannot be read"),
        ("a: |\n  " + "x" * MAX_HEAD, "longer than"),
    ],
    ids=lambda value: value[:24],
)
def test_hostile_yaml_is_refused(head: str, says: str) -> None:
    assert says in problem_of(head)


def test_a_bomb_of_aliases_is_refused_before_it_grows() -> None:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]" for n in range(20)]
    assert "alias" in problem_of("\n".join(lines))


def test_a_head_as_long_as_allowed_is_read_and_the_body_has_no_limit() -> None:
    head = "a: " + "x" * (MAX_HEAD - 10)
    assert len(read(head, "y" * 3 * MAX_HEAD)["text"]) == 3 * MAX_HEAD


def test_dates_and_times_become_text() -> None:
    found = read("day: 2026-11-16\nat: 2026-11-16T05:00:00Z\nlocal: 2026-11-16 05:00:00\nlist: [2026-01-02]")
    assert found == {
        "day": "2026-11-16",
        "at": "2026-11-16T05:00:00+00:00",
        "local": "2026-11-16T05:00:00",
        "list": ["2026-01-02"],
        "text": "",
    }


def test_the_same_file_reads_the_same_in_every_process() -> None:
    """A task is repeated elsewhere: another order of names would look like another body."""
    code = (
        "import json; from millrace.items.front_matter import read_markdown;"
        "print(json.dumps(read_markdown(b'---\\nb: {z: 1, y: 2, x: 3}\\na: [q, p]\\n---\\n')))"
    )
    path = os.pathsep.join(sys.path)
    said = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": path},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert said == {b'{"b": {"z": 1, "y": 2, "x": 3}, "a": ["q", "p"], "text": ""}\n'}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    st.one_of(
        st.binary(max_size=60).map(lambda data: b"---\n" + data + b"\n---\n"),
        st.text("ab:-[]{}&*!|>'\"#%@,?0.~\n ", max_size=60).map(lambda text: f"---\n{text}\n---\n".encode()),
        st.binary(max_size=40),
    )
)
def test_any_bytes_are_read_as_json_or_refused(data: bytes) -> None:
    try:
        found = read_markdown(data)
    except Malformed:
        return
    assert json.loads(json.dumps(found, ensure_ascii=False, allow_nan=False).encode()) == found
