"""What is printed: text of senders stays text, for the terminal and for the shell."""

from __future__ import annotations

import json

import pytest

from millrace.cli.printing import plain, print_exports, print_facts, print_json, print_table


def test_a_table_shows_markup_and_control_characters_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("message_id", "error"), [{"message_id": "m-1", "error": "[red]\x1b[2Jx"}])
    shown = capsys.readouterr().out
    assert "message id" in shown
    assert "[red]?[2Jx" in shown


def test_facts_are_shown_as_people_read_them(capsys: pytest.CaptureFixture[str]) -> None:
    print_facts({"paused": True, "retry_at": None, "labels": ["a", "b"], "rate": 1.25, "result": {"n": 1}})
    lines = [line.split(maxsplit=1)[-1].strip() for line in capsys.readouterr().out.splitlines()]
    assert [line.rpartition("  ")[2] for line in lines] == ["yes", "-", "a, b", "1.2", '{"n": 1}']


def test_exports_keep_a_senders_text_inside_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    print_exports({"CORRELATION_ID": "x'; rm -rf $HOME"}, err=False)
    assert capsys.readouterr().out == "export MILLRACE_CORRELATION_ID='x'\"'\"'; rm -rf $HOME'\n"


ESCAPES = "w\x1b[2J\x9b31m\x07\u202e\x7f"


def test_what_a_terminal_would_obey_is_neutralised_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    document = {"owner": ESCAPES, "list": [ESCAPES], "map": {"error": ESCAPES}}
    print_facts(document)
    print_table(tuple(document), [document])
    print_json(document)
    shown = capsys.readouterr().out
    assert not set(ESCAPES[1:2] + "\x9b\x07\u202e\x7f") & set(shown)
    assert plain(ESCAPES) == "w?[2J?31m???"
    print_json(document)
    assert json.loads(capsys.readouterr().out) == document
