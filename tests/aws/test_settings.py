"""What a function reads from its environment."""

from __future__ import annotations

from millrace.aws.settings import Settings


def test_histories_are_off_unless_asked_for() -> None:
    needed = dict.fromkeys(("QUEUE_TABLE", "DEAD_LETTER_TABLE", "BODY_BUCKET", "DEFINITIONS"), "x")

    assert not Settings.from_environment(needed).log_history
    assert Settings.from_environment({**needed, "LOG_HISTORY": "1"}).log_history
