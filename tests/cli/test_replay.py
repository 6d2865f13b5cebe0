"""`millrace replay`: asks, starts, counts, cancels, resumes a replay of a window."""

from __future__ import annotations

from millrace.cli.connection import Exit
from tests.cli.terminal import Terminal

WINDOW = ("--received-from", "2020-01-01T00:00Z", "--received-before", "2100-01-01T00:00Z")


def test_what_is_done_in_a_window_is_replayed_by_a_job(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    producer.run("replay", "Jobs", "--of", "done", exit_code=Exit.USAGE)
    producer.run("replay", "Jobs", "--of", "done", *WINDOW, exit_code=Exit.FAILED)  # nobody said yes
    worker.run("replay", "Jobs", "--of", "done", *WINDOW, "--yes", exit_code=Exit.DENIED)
    producer.run("replay", "Jobs", "--of", "done", *WINDOW, "--to", "Ordered", "--yes", exit_code=Exit.FAILED)
    dry = producer.json("replay", "Jobs", "--of", "all", *WINDOW, "--dry-run")
    assert (dry["dry_run"], dry["window"]["of"], dry["window"]["to"]) == (True, "all", "Jobs")
    job = producer.json(
        "replay", "Jobs", "--of", "done", *WINDOW, "--to", "Quick", "--key", "k", "--rate", "5", "--yes"
    )
    assert (job["window"]["to"], job["rate"], job["filter"]["key"]) == ("Quick", 5, "k")
    producer.run("replay", "Jobs", "--cancel", job["job_id"])
    producer.run("replay", "Jobs", "--resume", job["job_id"])
    shown = producer.run("replay", "Jobs", "--show", job["job_id"])
    assert b"read units" in shown.stdout
    assert job["job_id"] in {one["job_id"] for one in producer.json("replay", "Jobs", "--list")}
    assert producer.run("replay", "Jobs", "--list").stdout
    producer.run("replay", "Jobs", "--show", "0" * 32, exit_code=Exit.NOTHING)


def test_dead_letters_need_no_window(terminals: tuple[Terminal, Terminal]) -> None:
    producer, _ = terminals
    job = producer.json("replay", "Jobs", "--dry-run")
    assert (job["window"]["of"], job["window"]["received_from"]) == ("dead", None)
