"""`schedules`: what is enqueued by the clock."""

from __future__ import annotations

from pathlib import Path

from millrace.model.queue_spec import DEFAULT_TENANT
from millrace.model.tokens import Scope
from tests.cli.terminal import Terminal
from tests.pull.stack import Stack


def test_a_schedule_is_listed_with_its_rule(stack: Stack, tmp_path: Path) -> None:
    operator = Terminal(stack, stack.token(DEFAULT_TENANT, Scope.READ), tmp_path)
    (found,) = operator.json("schedules")
    assert (found["name"], found["queue"], found["cron"]) == ("Nightly", "Jobs", "0 3 * * *")
    assert b"Europe/Berlin" in operator.run("schedules").stdout
