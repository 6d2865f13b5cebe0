"""`schedule`: what is compiled, and what is refused with its place."""

from __future__ import annotations

import pytest

from millrace.definitions.language.compiler import Compilation, compile_files

QUEUE = "queue Reports { message_type { report: string  day?: time }  fed_by: api  drained_by: api }"
GOOD = 'cron: "0 3 * * *"  timezone: "Europe/Berlin"  queue: Reports  message: {"report": "daily", "day": tick}'


def outcome(schedule: str, more: str = "") -> Compilation:
    return compile_files(
        [("test.millrace", f"app Test {{\n{QUEUE}\n{more}\nschedule Nightly {{ {schedule} }}\n}}".encode())]
    )


def test_a_schedule_is_compiled_with_its_defaults() -> None:
    compiled = outcome('cron: "0 3 * * *"  queue: Reports  message: {report: "x"}').definitions
    assert compiled is not None
    assert compiled["schedules"]["Nightly"] == {
        "app": "Test",
        "queue": "Reports",
        "cron": "0 3 * * *",
        "timezone": "UTC",
        "catch_up": "latest",
        "tenant": None,
        "message": {"report": {"text": '"x"', "form": {"literal": "x"}}},
    }


def test_a_queue_that_a_schedule_feeds_is_no_loose_end() -> None:
    queue = "queue Fed { message_type { n: int }  drained_by: api }"
    found = outcome('cron: "0 3 * * *"  queue: Fed  message: {"n": 1}', queue)
    assert found.definitions is not None
    assert found.findings == []


@pytest.mark.parametrize(
    ("schedule", "line_and_column", "says"),
    [
        (GOOD.replace("0 3 * * *", "0 25 * * *"), "4:26", "this is no cron rule: the hour is wrong"),
        (GOOD.replace("0 3 * * *", "0 3 * *"), "4:26", "5 fields"),
        (GOOD.replace("Europe/Berlin", "Europe/Berln"), "4:49", "there is no time zone 'Europe/Berln'"),
        (GOOD.replace("queue: Reports", "queue: Report"), "4:73", "there is no queue `Report`"),
        (GOOD.replace('"daily"', "7"), "4:92", "report should be a string, not an int"),
        (GOOD.replace('"day": tick', '"days": tick'), "4:111", "an unknown field"),
        (GOOD.replace('"report": "daily", ', ""), "4:82", "report should be a string, not nothing"),
        (GOOD.replace("tick", "tock"), "4:118", "tock"),
        (GOOD.partition("message")[0] + 'message: ["x"]', "4:91", "`message` must be an object"),
        (GOOD + "  catch_up: some", "4:135", "one of latest, all, none"),
        (GOOD + '  tenant: "acme"', "4:125", "there is no tenant `acme`"),
        ('queue: Reports  message: {"report": "x"}', "4:10", "the schedule `Nightly` has no rule"),
        ('cron: "0 3 * * *"  message: {"report": "x"}', "4:10", "leads nowhere"),
        ('cron: "0 3 * * *"  queue: Reports', "4:10", "sends nothing"),
        (GOOD + '  crn: "x"', "4:125", "there is no `crn` in `schedule`"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(schedule: str, line_and_column: str, says: str) -> None:
    errors = [str(error) for error in outcome(schedule).errors]
    assert any(f":{line_and_column}:" in error and says in error for error in errors), errors


def test_two_schedules_of_one_name_are_refused() -> None:
    more = f"schedule Nightly {{ {GOOD} }}"
    assert any("two schedules named `Nightly`" in str(error) for error in outcome(GOOD, more).errors)
