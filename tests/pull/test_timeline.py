"""A message's life as a list of moments."""

from __future__ import annotations

from dataclasses import replace

import jsonschema
import pytest

from millrace.engine.status import MessageStatus, MessageView
from millrace.model.message import Attempt, Body, DeadLetter, DeadLetterReason, Entry, Message, Place, Result
from millrace.pull.timeline import MOMENT, timeline

MESSAGE = Message("m", "acme", "Jobs", "n", Place("p", "s"), Body(), "text/plain", 1_000, 0, 0, source="github")
ENTRY = Entry(Place("p", "s"), "m", "n", 1_000, 0, 0, "c", attempts=1, owner="w2", since=5_000, due=9_000)
FAILED = Attempt(1, 1, "w1", 2_000, 3_000, "E", "no")
DEAD = DeadLetter(MESSAGE, 4_000, DeadLetterReason.EXHAUSTED, "no", "E", 1, 1, 0, "", "", (), (FAILED,), 1)


def what(found: MessageView, dead_letter: DeadLetter | None = None) -> list[str]:
    moments = timeline(found, dead_letter)
    for moment in moments:
        jsonschema.validate(moment, MOMENT)
    return [moment["what"] for moment in moments]


@pytest.mark.parametrize(
    ("status", "entry", "ends"),
    [
        (MessageStatus.READY, ENTRY, []),
        (MessageStatus.SCHEDULED, ENTRY, ["scheduled"]),
        (MessageStatus.IN_FLIGHT, ENTRY, ["claimed"]),
        (MessageStatus.PURGED, None, ["purged"]),
        (MessageStatus.DEAD, None, ["dead"]),
        (MessageStatus.DONE, None, ["done"]),
    ],
)
def test_a_message_is_received_tried_and_now_where_it_is(
    status: MessageStatus, entry: Entry | None, ends: list[str]
) -> None:
    found = MessageView(status, MESSAGE, entry, history=(FAILED,))
    assert what(found) == ["received", "claimed", "failed", *ends]


def test_a_dead_letter_says_why_and_what_it_was_replayed_as() -> None:
    found = MessageView(MessageStatus.DEAD, MESSAGE, dead_letter=DEAD.sk)
    assert what(found, DEAD) == ["received", "claimed", "failed", "dead"]
    replayed = replace(DEAD, replayed_at=6_000, replayed_as="m2")
    assert what(found, replayed)[-2:] == ["dead", "replayed"]
    assert timeline(found, replayed)[-1]["message_id"] == "m2"
    assert timeline(found, replayed)[-2]["error_type"] == "exhausted"


def test_a_finished_message_says_when() -> None:
    found = MessageView(MessageStatus.DONE, MESSAGE, result=Result("m", "n", 1, 7_000, b"", 0))
    assert timeline(found, None)[-1]["at"] == "1970-01-01T00:00:07.000Z"
