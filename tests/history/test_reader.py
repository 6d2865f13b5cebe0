"""Histories are read from journals and logs, in every wrapping."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from millrace.cli.main import main
from millrace.history.log import HistoryEvent
from millrace.history.reader import MalformedHistory, read_records
from millrace.history.records import HistoryRecord


def test_lines_are_read_and_a_torn_last_one_is_left_out() -> None:
    line = '{"at":1,"event":"started","message":"m","version":2,"owner":"w","queue":"Q","key":"k","sequence":null}\n'

    assert list(read_records([line, "\n", line[:20]])) == [
        HistoryRecord(1, HistoryEvent.STARTED, "m", 2, "w", "Q", "k", None)
    ]


@pytest.mark.parametrize("line", ["nonsense\n", "[1]\n", '{"at":1,"event":"flew","message":"m"}\n', '{"at":1}\n'])
def test_a_malformed_line_is_named(line: str) -> None:
    with pytest.raises(MalformedHistory, match="Line 1 "):
        list(read_records([line]))


BODY, KEY, IDEMPOTENCY, RESULT = b'{"say":"marked-body"}', "marked-key", "marked-idempotency", b"marked-result"


def check(*files: object, **options: Any) -> Result:
    flags = [f"--{name.replace('_', '-')}" for name, on in options.items() if on]
    return CliRunner().invoke(main, ["check-history", *flags, *map(str, files)])


# -- the command ----------------------------------------------------------------------------------------------------
LIFE = [
    {"action": "history", "event": event, "at": at, "tenant": "t", "queue": "Q", "owner": "w", "messages": messages}
    for event, at, messages in (
        ("accepted", 10, [["m1", 0, "n", "R#1#", 1, 9], ["m2", 0, "n", "R#1#", 2, 9]]),
        ("started", 20, [["m1", 1, "n"]]),
        ("ending", 30, [["m1", 1, "n"]]),
        ("done", 31, [["m1", 1, "n"]]),
    )
]

LINES = [json.dumps(line, separators=(",", ":")) for line in LIFE]

OTHER = '{"level":"INFO","message":"A call was answered.","action":"webhook_accepted"}'


def wrapped(form: str) -> str:
    """The same four lines as CloudWatch gives them."""
    moment = "2026-11-16T04:31:25.123000+00:00 2026/11/16/[$LATEST]0a1b"
    events = [{"logStreamName": "s", "timestamp": 1, "message": line + "\n", "eventId": "1"} for line in LINES]
    match form:
        case "as written":
            return "\n".join([OTHER, *LINES, "START RequestId: 1", ""])
        case "tailed":
            return "".join(f"{moment} {line}\n" for line in [OTHER, *LINES, "END RequestId: 1 {"])
        case "tailed as json":
            return f"{moment} {OTHER}\n" + "".join(f"{moment} {json.dumps(line, indent=4)}\n" for line in LIFE)
        case "exported":
            return "".join(f"2026-11-16T04:31:25.123Z {line}\n" for line in [OTHER, *LINES])
        case "filtered":
            return json.dumps({"events": events, "searchedLogStreams": []}, indent=4) + "\n"
        case "subscribed":
            return json.dumps({"messageType": "DATA_MESSAGE", "logEvents": events}) + "\n"
        case "queried":
            rows = [[{"field": "@message", "value": line}, {"field": "@ptr", "value": "x"}] for line in LINES]
            return json.dumps({"results": rows}, indent=4) + "\n"
        case _:  # inside a line of Powertools
            return "".join(json.dumps({"level": "INFO", "message": line}) + "\n" for line in LINES)


FORMS = ("as written", "tailed", "tailed as json", "exported", "filtered", "subscribed", "queried", "logged")


@pytest.mark.parametrize("form", FORMS)
def test_a_history_is_found_in_every_wrapping(tmp_path: Path, form: str) -> None:
    (tmp_path / "log").write_text(wrapped(form))
    (tmp_path / "log.gz").write_bytes(gzip.compress(wrapped(form).encode()))
    for name in ("log", "log.gz"):
        result = check(tmp_path / name, json=True)
        found = json.loads(result.stdout)
        assert (result.exit_code, found["accepted"], found["done"]) == (0, 2, 1), result.output
        assert found["unfinished"] == ["m2"]
        assert found["lines"]["unreadable"] == []


def test_lines_are_counted_by_what_they_hold(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(wrapped("as written"))

    assert check(tmp_path / "log").stdout.splitlines()[0] == "6 lines: 4 of the history, 2 others, 0 unreadable."


def test_what_has_not_ended_is_lost_only_in_a_complete_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(wrapped("as written"))

    assert check(tmp_path / "log").exit_code == 0
    result = check(tmp_path / "log", complete=True)
    assert result.exit_code == 1
    assert "lost  m2: it is unfinished" in result.stdout


def test_a_broken_promise_is_told_whichever_file_shows_it(tmp_path: Path) -> None:
    again = {**LIFE[1], "at": 5_000, "owner": "other", "messages": [["m1", 2, "n"]]}
    (tmp_path / "ingress.log").write_text(LINES[0] + "\n")
    (tmp_path / "worker.log").write_text("\n".join([*LINES[1:], json.dumps(again), ""]))

    result = check(tmp_path / "ingress.log", tmp_path / "worker.log", json=True)
    assert result.exit_code == 1
    assert json.loads(result.stdout)["faults"] == {"started after its end": 1}
    assert check(tmp_path / "ingress.log").exit_code == 0


def test_a_line_that_an_export_holds_twice_counts_once(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(wrapped("exported") * 2)

    found = json.loads(check(tmp_path / "log", json=True).stdout)
    assert (found["accepted"], found["started"], found["findings"]) == (2, 1, [])


def test_one_queue_of_several_is_checked_alone(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(wrapped("as written"))
    checked = CliRunner().invoke(main, ["check-history", "--queue", "Q", "--tenant", "t", str(tmp_path / "log")])

    assert checked.exit_code == 0
    assert CliRunner().invoke(main, ["check-history", "--queue", "P", str(tmp_path / "log")]).exit_code == 2


@pytest.mark.parametrize(
    "text", ["", OTHER + "\n", LINES[0][:40] + "\n" + LINES[1] + "\n", LINES[0].replace("accepted", "flew") + "\n"]
)
def test_a_log_that_cannot_be_read_is_no_clean_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "log").write_text(text)

    assert check(tmp_path / "log").exit_code == 2


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    result = check(tmp_path / "missing")
    assert (result.exit_code, "missing cannot be read" in result.stderr) == (2, True)


def test_half_a_line_of_a_killed_writer_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "at the end").write_text("\n".join([*LINES, LINES[3][:50]]))
    (tmp_path / "in between").write_text("\n".join([LINES[0], LINES[1][:50] + LINES[1], *LINES[2:], ""]))

    for name in ("at the end", "in between"):
        assert check(tmp_path / name).exit_code == 0


def test_standard_input_is_read() -> None:
    command = [sys.executable, "-m", "millrace.cli", "check-history", "--json", "-"]
    given = gzip.compress(wrapped("tailed").encode())
    ran = subprocess.run(command, input=given, capture_output=True, timeout=60, check=False)

    assert (ran.returncode, json.loads(ran.stdout)["done"]) == (0, 1)
