"""`millrace erase`: asks, starts, counts, cancels, resumes, and says what remains."""

from __future__ import annotations

from millrace.cli.connection import Exit
from tests.cli.terminal import Terminal


def test_a_key_is_erased_by_a_job(terminals: tuple[Terminal, Terminal]) -> None:
    producer, worker = terminals
    message_id = producer.json("enqueue", "Jobs", "1", "--key", "alice")["message_id"]
    producer.run("erase", exit_code=Exit.USAGE)
    producer.run("erase", "--key", "alice", "--everything", exit_code=Exit.USAGE)
    producer.run("erase", "--key", "alice", exit_code=Exit.FAILED)  # nobody said yes
    worker.run("erase", "--key", "alice", "--yes", exit_code=Exit.DENIED)
    assert producer.json("erase", "--key", "alice", "--dry-run")["dry_run"] is True
    job = producer.json("erase", "--key", "alice", "-q", "Jobs", "--yes")
    assert job["selects"]["queue"] == "Jobs"
    shown = producer.run("erase", "--show", job["job_id"])
    assert b"Point-in-time recovery" in shown.stderr
    producer.run("erase", "--cancel", job["job_id"])
    producer.run("erase", "--resume", job["job_id"])
    assert job["job_id"] in {one["job_id"] for one in producer.json("erase", "--list")}
    assert producer.run("erase", "--list").stdout
    producer.run("erase", "--show", "0" * 32, exit_code=Exit.NOTHING)
    assert producer.json("status", "Jobs", message_id)["status"] in ("ready", "purged")
