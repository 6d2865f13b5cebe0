"""The load run (`make load`): signed webhooks through the real handlers, worked off by several processes.

Runs fail at random, some messages can never succeed, and one worker is killed on the way. The processes record a
history in their logs; at the end every message is looked up in the table, and the checker of `millrace check-history`
holds the two against the promises.

    python -m tests.performance.load.run [--messages 10000] [--senders 2] [--workers 3] [--failing 0.05] [--no-kill]
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from infra.local.dynamodb import CREDENTIALS, REGION
from millrace.definitions import load
from millrace.definitions.language.compiler import compile_files
from millrace.engine.drafts import WEBHOOK, spaced_key
from millrace.engine.queue import Queue, Runtime
from millrace.engine.status import MessageStatus, status
from millrace.history.checker import Verdict, check_history
from millrace.history.reader import LogRecords
from millrace.history.records import Fault, HistoryRecord
from millrace.model.ids import keyed_message_id
from millrace.model.keys import END
from millrace.stores.dynamodb.client import TableNames, dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.memory.queue import MemoryBlobs
from tests.engines import own_engine

ROOT = Path(__file__).parents[3]
NAMES = TableNames("millrace-load-queue", "millrace-load-dead-letters")
TENANT, QUEUE = "load", "LoadQueue"
SECRET = "whsec_" + "bG9hZC1ydW4tc2VjcmV0LWxvYWQtcnVu"
STALLED_S = 180


@dataclass(frozen=True, slots=True)
class Found:
    """What became of one message."""

    status: MessageStatus
    received_at: int
    finished_at: int


@dataclass(frozen=True, slots=True)
class Report:
    """The figures of a run."""

    accepted: int
    verdict: Verdict
    log_bytes: int  #: of the history, for each accepted message
    p50_ms: int
    p99_ms: int
    seconds: float

    @property
    def right(self) -> bool:
        return self.verdict.sound and self.verdict.done + self.verdict.dead == self.accepted

    def table(self) -> Table:
        table, verdict = Table(title="Load run", show_header=False), self.verdict
        rows = {
            "accepted": f"{self.accepted:,}",
            "done": f"{verdict.done:,}",
            "dead": f"{verdict.dead:,}",
            "lost": f"{verdict.count(Fault.LOST, Fault.NEVER_ACKED):,}",
            "broken promises of any kind": f"{len(verdict.findings):,}",
            "runs": f"{verdict.started:,}",
            "duplicate starts (their worker was killed)": f"{verdict.repeats:,}",
            "history, for a message": f"{self.log_bytes:,} bytes",
            "accepted to done, p50": f"{self.p50_ms:,} ms",
            "accepted to done, p99": f"{self.p99_ms:,} ms",
            "messages per second": f"{self.accepted / self.seconds:,.0f}",
        }
        for name, value in rows.items():
            table.add_row(name, value)
        return table


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Load through the real handlers.")
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--senders", type=int, default=2)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--failing", type=float, default=0.05)
    parser.add_argument("--no-kill", action="store_true")
    given = parser.parse_args(arguments)
    console = Console()
    with tempfile.TemporaryDirectory() as folder, own_engine(NAMES) as url:
        report = run(Path(folder), url, given, console)
    console.print(report.table())
    for finding in report.verdict.findings[:20]:
        console.print(f"[red]{finding.fault}[/red] {finding.message}: {finding.shown_by}")
    console.print("[green]all accounted for[/green]" if report.right else "[red]NOT all accounted for[/red]")
    return 0 if report.right else 1


def run(folder: Path, url: str, given: argparse.Namespace, console: Console) -> Report:
    environment = _environment(folder, url, given)
    queue = _queue(folder, url)
    workers = [
        _python(["-m", "functions.worker", "--tenant", TENANT], environment, folder / f"worker{number}.log")
        for number in range(given.workers)
    ]
    share = -(-given.messages // given.senders)
    starts = range(0, given.messages, share)
    senders = [
        _python(
            ["-m", "tests.performance.load.sender", str(first), str(min(share, given.messages - first))],
            environment,
            folder / f"sender{first}.log",
            pipe=True,
        )
        for first in starts
    ]
    begun = time.monotonic()
    try:
        accepted = _watch(queue, senders, workers, given, console)
        seconds = time.monotonic() - begun
    finally:
        for process in (*senders, *workers):
            process.terminate()
        for process in (*senders, *workers):
            process.wait(60)
            if process.stdout:
                process.stdout.close()
    return _report(queue, folder, given.messages, accepted, seconds)


def _environment(folder: Path, url: str, given: argparse.Namespace) -> dict[str, str]:
    compiled = compile_files([("load.millrace", (Path(__file__).parent / "load.millrace").read_bytes())])
    (folder / "definitions.json").write_text(compiled.text)
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        **CREDENTIALS,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_DYNAMODB": url,
        "QUEUE_TABLE": NAMES.queue,
        "DEAD_LETTER_TABLE": NAMES.dead_letters,
        "BODY_BUCKET": "none",
        "DEFINITIONS": str(folder / "definitions.json"),
        "COMMANDS": "tests.performance.load.commands",
        "LOAD_SECRET": SECRET,
        "LOG_HISTORY": "1",
        "LOAD_FAILING": str(given.failing),
        "POWERTOOLS_LOG_LEVEL": "ERROR",
        "PYTHONPATH": f"{ROOT / 'shared'}{os.pathsep}{ROOT}",
    }


def _queue(folder: Path, url: str) -> Queue:
    spec = load(folder / "definitions.json").queue(QUEUE).spec
    store = DynamoStore(dynamodb_client(endpoint_url=url, region=REGION), NAMES)
    return Runtime(store, MemoryBlobs()).queue(TENANT, spec)


def _python(
    arguments: list[str], environment: dict[str, str], path: Path, *, pipe: bool = False
) -> subprocess.Popen[str]:
    with path.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE if pipe else log,
            stderr=log,
            text=True,
        )


def _watch(
    queue: Queue,
    senders: list[subprocess.Popen[str]],
    workers: list[subprocess.Popen[str]],
    given: argparse.Namespace,
    console: Console,
) -> int:
    """Show how far it is; kill a worker half-way; the number accepted, once everything has ended."""
    columns = (TextColumn("{task.description:10}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(len(senders)) as pool:
        sending = progress.add_task("accepted", total=given.messages)
        ending = progress.add_task("ended", total=given.messages)

        def follow(sender: subprocess.Popen[str]) -> int:
            total = 0
            for line in _lines(sender.stdout):
                total += int(line)
                progress.advance(sending, int(line))
            return total

        followed = [pool.submit(follow, sender) for sender in senders]
        moved_at, ended, kill = time.monotonic(), 0, not given.no_kill and len(workers) > 1
        while not _is_over(queue, senders) and time.monotonic() - moved_at < STALLED_S:
            state = queue.state(fresh=True)
            if state.done + state.dead > ended:
                ended, moved_at = state.done + state.dead, time.monotonic()
                progress.update(ending, completed=ended)
            if kill and ended > given.messages // 3:
                workers[0].send_signal(signal.SIGKILL)
                kill = False
            time.sleep(0.2)
        progress.update(ending, completed=given.messages)
        return sum(future.result() for future in followed)


def _is_over(queue: Queue, senders: list[subprocess.Popen[str]]) -> bool:
    """Whether all is sent and no entry is left. The counters lag: a killed worker took some of them with it."""
    if any(sender.poll() is None for sender in senders):
        return False
    return not any(queue.store.read_lane(pk, "A", END, 1).items for pk in queue.partitions())


def _lines(stream: IO[str] | None) -> Iterator[str]:
    assert stream is not None
    yield from stream


def _report(queue: Queue, folder: Path, messages: int, accepted: int, seconds: float) -> Report:
    ids = [keyed_message_id(TENANT, QUEUE, spaced_key(f"{WEBHOOK}LoadHook", str(n))) for n in range(messages)]
    with ThreadPoolExecutor(8) as pool:
        found = dict(zip(ids, pool.map(lambda message_id: _look_up(queue, message_id), ids), strict=True))
    statuses = {message_id: end.status.value for message_id, end in found.items() if end}
    records, log_bytes = _history(folder)
    done = [end for end in found.values() if end and end.status is MessageStatus.DONE]
    waits = sorted(end.finished_at - end.received_at for end in done) or [0]
    return Report(
        accepted=accepted,
        verdict=check_history(records, statuses=statuses),
        log_bytes=log_bytes // max(1, accepted),
        p50_ms=waits[len(waits) // 2],
        p99_ms=waits[min(len(waits) - 1, len(waits) * 99 // 100)],
        seconds=seconds,
    )


def _history(folder: Path) -> tuple[list[HistoryRecord], int]:
    """What the processes recorded, and how many bytes that took."""
    log, size = LogRecords(), 0
    records: list[HistoryRecord] = []
    for path in sorted(folder.glob("*.log")):
        lines = path.read_text("utf-8", "replace").splitlines(keepends=True)
        size += sum(len(line) for line in lines if '"action":"history"' in line)
        records += log.read(path.name, lines)
    return records, size


def _look_up(queue: Queue, message_id: str) -> Found | None:
    try:
        seen = status(queue, message_id)
    except Exception:  # noqa: BLE001 (not there at all: it counts as lost if it was accepted)
        return None
    return Found(seen.status, seen.message.received_at, seen.result.finished_at if seen.result else 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
