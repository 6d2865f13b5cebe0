"""A replay job whose process is killed twice, for real, and taken over: each dead letter exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

from millrace.admin.run_job import LEASE_MS, run_job_slice
from millrace.engine.dead_letters import list_dead_letters
from millrace.engine.inspect import list_entries
from millrace.engine.queue import Queue
from millrace.model.admin_jobs import AdminJob, AdminJobKind, AdminJobs, AdminJobState
from millrace.model.clock import system_clock
from millrace.model.message import Body, DeadLetter, DeadLetterReason, Message, Place
from millrace.stores.dynamodb.dead_letters import dead_letter_item
from tests.admin.job_process import opened

DAY_S = 86_400


def lay(queue: Queue, count: int) -> list[str]:
    """Dead letters, written straight into their table: what matters here is what becomes of them."""
    now = system_clock()
    calls, names = queue.store._calls, queue.store._names  # type: ignore[attr-defined]
    dead_letters = []
    for number in range(count):
        failed_at = now - 1_000_000 + number
        body = Body(b'{"n":%d}' % number, size=len(b'{"n":%d}' % number))
        message = Message(
            f"m{number:06d}", queue.tenant, queue.spec.name, "n", Place("Q#t#Jobs#0", "s"), body, "application/json",
            failed_at, failed_at, now // 1000 + DAY_S, correlation_id=f"c{number}",
        )  # fmt: skip
        dead_letters.append(
            DeadLetter(
                message,
                failed_at,
                DeadLetterReason.EXHAUSTED,
                "boom",
                "E",
                3,
                3,
                50,
                "",
                "",
                (),
                (),
                now // 1000 + DAY_S,
            )
        )
    for start in range(0, count, 25):
        requests = [
            {"PutRequest": {"Item": dead_letter_item(dead_letter)}} for dead_letter in dead_letters[start : start + 25]
        ]
        calls.send("batch_write_item", RequestItems={names.dead_letters: requests})
    return [dead_letter.message.id for dead_letter in dead_letters]


def origins(queue: Queue) -> Counter[str]:
    found: Counter[str] = Counter()
    cursor = None
    while True:
        page = list_entries(queue, limit=100, cursor=cursor)
        messages = queue.store.get_messages([entry.id for entry in page.items])
        # An entry without its own message is what a killed sender leaves: it never runs, and is cleared away later.
        own = [entry for entry in page.items if entry.id in messages and messages[entry.id].nonce == entry.nonce]
        found.update(messages[entry.id].origin for entry in own)
        cursor = page.next
        if cursor is None:
            return found


def prove(engine_url: str, tenant: str, count: int) -> float:
    """Kill the job's process twice on its way, take it over, count what came of each dead letter; the seconds."""
    queue, jobs = opened(engine_url, tenant)
    ids = lay(queue, count)
    now = system_clock()
    job = jobs.create(
        AdminJob("j1", tenant, "Jobs", AdminJobKind.REPLAY, now, "t", "olga", now // 1000 + DAY_S, total=count)
    )
    began = time.monotonic()
    for share in (0.4, 0.7):
        _run_and_kill(engine_url, tenant, queue, wanted=int(count * share))
        kept = jobs.get(tenant, "Jobs", "j1")
        assert kept is not None
        assert kept.state is AdminJobState.RUNNING
        assert 0 < kept.done < count
        assert run_job_slice(jobs, queue, job, lambda: 60_000).job.done == kept.done, "the dead runner's lease holds"
        _end_lease(jobs, kept)
    ran = run_job_slice(jobs, queue, job, lambda: 900_000)
    took = time.monotonic() - began
    assert (ran.job.state, ran.job.done, ran.job.skipped, ran.job.failed) == (AdminJobState.DONE, count, 0, 0)
    assert origins(queue) == Counter(ids), "each exactly once"
    assert all(dead_letter.replay_job == "j1" for dead_letter in list_dead_letters(queue, limit=500).items)
    return took


def _end_lease(jobs: AdminJobs, job: AdminJob) -> None:
    """As if the dead runner's lease had run out by itself: nobody gave it back."""
    late = system_clock() + LEASE_MS
    taken = jobs.take(replace(job, lease_token="gone", lease_until=late), late)
    assert taken is not None
    assert jobs.save(replace(taken, lease_until=1)) is not None


def _run_and_kill(engine_url: str, tenant: str, queue: Queue, wanted: int) -> None:
    """Start a runner and kill it once so many dead letters are marked: the store decides, not the time."""
    command = [sys.executable, "-m", "tests.admin.job_process", engine_url, tenant, "j1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["shared", "."])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"running\n"
        after = f"{0:013d}"
        while wanted > 0 and process.poll() is None:
            upto = f"{system_clock():013d}"
            page = queue.store.read_dead_letters(tenant, "Jobs", after, upto, min(wanted, 100))
            replayed = [dead_letter for dead_letter in page.items if dead_letter.replayed_at]
            wanted -= len(replayed)
            after = replayed[-1].sk if replayed else after
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.returncode == -signal.SIGKILL
