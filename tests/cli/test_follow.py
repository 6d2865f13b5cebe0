"""A message is followed to its end; the exit code says which."""

from __future__ import annotations

import pytest

from millrace.cli.connection import CliError, Exit
from millrace.cli.follow import follow, follow_by_id
from millrace.client import Client, Delivery
from tests.cli.terminal import Terminal
from tests.client.conftest import client, pauses, service, time, wire  # noqa: F401 (fixtures)


def test_each_state_is_said_once_with_its_time(client: Client, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    receipt = client.enqueue("Jobs", 1)
    clock = iter(range(100))

    def work(_seconds: float) -> None:
        """What happens between two looks: nothing, a claim, an ack."""
        looks.append(len(looks))
        if len(looks) == 2:
            jobs.extend(client.dequeue("Jobs", owner="me"))
        elif len(looks) == 4:
            jobs[0].ack({"made": 7})

    looks: list[int] = []
    jobs: list[Delivery] = []
    found, end = follow(client, "Jobs", receipt.message_id, sleep=work, clock=lambda: float(next(clock)))
    assert (found["status"], end) == ("done", Exit.OK)
    lines = [line.split(None, 3)[3] for line in capsys.readouterr().err.splitlines()]
    assert [line.split()[0] for line in lines] == ["ready", "in_flight", "done"]
    assert lines[1].endswith("attempt 1 by me")
    assert lines[2].endswith("result {'made': 7}")


def test_a_dead_letter_is_a_failure_and_says_why(client: Client, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: F811
    receipt = client.enqueue("Jobs", 1)
    client.dequeue("Jobs")[0].nack(error_type="Gate", error="stuck", reject=True)
    assert follow_by_id(client, receipt.message_id)[1] == Exit.FAILED
    assert "rejected: Gate stuck" in capsys.readouterr().err
    with pytest.raises(CliError, match="no message"):
        follow_by_id(client, "nothing")


def test_enqueue_and_status_follow(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    sent = producer.json("enqueue", "Jobs", "1", "--delay", "0")["message_id"]
    worker.run("work", "Jobs", "--once", "--", "true")
    assert b"done" in producer.run("status", "Jobs", sent, "--follow").stderr
    producer.run("enqueue", "Jobs", "1", "-i", "k")
    worker.run("work", "Jobs", "--once", "--reject-on", "1", "--", "false", exit_code=Exit.FAILED)
    followed = producer.run("enqueue", "Jobs", "1", "-i", "k", "--follow", exit_code=Exit.FAILED)
    assert b"dead" in followed.stderr
