"""`make chaos`: signed webhooks at a steady rate while everything that serves them is killed, stopped and restarted.

The processes are the local stack's: DynamoDB Local on disk, gateways with every function, workers. Their logs hold the
history, the checker of `millrace check-history` decides, and every table is read in the end. Only what was started
here is ended, by its pid.

    python -m tests.proofs.chaos.run [--minutes 3] [--seed 1] [--rate 5] [--workers 2] [--ingresses 2] [--keep DIR]
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from infra.local.dynamodb import CREDENTIALS, REGION
from millrace.definitions import load
from millrace.engine.queue import Queue, Runtime
from millrace.history.checker import check_history
from millrace.history.log import HistoryEvent
from millrace.model.clock import system_clock
from millrace.model.errors import MillraceError
from millrace.model.keys import END
from millrace.model.message import DeadLetter
from millrace.model.queue_spec import Ordering
from millrace.stores.dynamodb.client import dynamodb_client
from millrace.stores.dynamodb.store import DynamoStore
from millrace.stores.dynamodb.tables import create_tables
from millrace.stores.memory.queue import MemoryBlobs
from tests.faults.schedule import FaultKind, PlannedFault, plan
from tests.proofs.chaos.canary import Canary
from tests.proofs.chaos.report import (
    Followed,
    InjectedFault,
    Report,
    longest_life,
    may_inject,
    read_history,
    recoveries,
    wrongs_of,
)
from tests.proofs.chaos.senders import Sender, Sent
from tests.proofs.chaos.settled_engine import SettledEngine
from tests.proofs.chaos.stack import NAMES, SECRET, TENANT, Engine, Role, Stack, StackFailed
from tests.proofs.hammer.hammer import table_statuses

QUEUES = ("Plain", "Keyed", "Line")
KEYS = 6
#: Of all messages so many go to the queue without order, to the keys, to the single line.
SHARES = {"Plain": 0.5, "Keyed": 0.35, "Line": 0.15}
PLAIN_SENDERS = 4
MAX_MINUTES, MAX_RATE = 60.0, 50.0
DRAIN_S = 240.0
LOST, VOID = 1, 2
#: The tables' files survive the engine's death in memory as they do on a disk; only its fsyncs take no time.
SCRATCH = Path("/dev/shm")  # noqa: S108 (a folder of our own is made in it)


class Chaos:
    """One run."""

    def __init__(self, home: Path, given: argparse.Namespace, console: Console) -> None:
        self.given, self.console = given, console
        self.seconds = given.minutes * 60
        self.engine = Engine(home / "dynamodb")
        self.home = home
        self.sent = Sent()
        self.injected: list[InjectedFault] = []
        self.dumb = 0
        self._held: list[tuple[float, Role]] = []  #: stopped, and until when

    def run(self) -> Report:
        with contextlib.ExitStack() as running:
            running.enter_context(self.engine)
            create_tables(NAMES, endpoint_url=self.engine.url, region=REGION, stream=True)
            proxy = running.enter_context(SettledEngine(self.engine.port, NAMES.queue, ("pk", "sk")))
            canary = Canary(proxy.url, every_s=0.5)
            given = self.given
            stack = Stack(self.home, workers=given.workers, ingresses=given.ingresses, engine_url=proxy.url)
            running.callback(stack.end)
            stack.start()
            canary.start()
            senders = self._senders(stack)
            self._strike(stack, senders, canary)
            drain_s = self._drain(stack, senders, canary)
            stack.end(within_s=20)
            canary.over.set()
            canary.join()
            return self._report(stack, canary, drain_s)

    # -- posting --
    def _senders(self, stack: Stack) -> list[Sender]:
        total = int(self.given.rate * self.seconds)
        made: list[Sender] = []
        for queue, share in SHARES.items():
            count = max(1, int(total * share))
            lines = {"Plain": PLAIN_SENDERS, "Keyed": KEYS, "Line": 1}[queue]
            for line in range(lines):
                numbers = range(line, count, lines)
                every_s = self.seconds / max(1, len(numbers))
                sender = Sender(f"{queue}Hook", f"k{line}", numbers, stack.ports, every_s, SECRET, self.sent)
                made.append(sender)
        for sender in made:
            sender.start()
        return made

    # -- striking --
    def _strike(self, stack: Stack, senders: list[Sender], canary: Canary) -> None:
        given = self.given
        lease_s = load(stack.definitions).queue("Plain").spec.lease_seconds
        faults = plan(given.seed, self.seconds, workers=given.workers, ingresses=given.ingresses, lease_s=lease_s)
        followed = Followed(stack.logs)
        begun = time.monotonic()
        columns = (TextColumn("{task.description:44}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console) as progress:
            task = progress.add_task("", total=self.seconds)
            while (passed := time.monotonic() - begun) < self.seconds:
                self._let_go()
                self._mend_engine(canary)
                followed.look()
                for fault in [fault for fault in faults if fault.at_s <= passed]:
                    if may_inject(fault.kind, self.injected, followed.done_at):
                        faults.remove(fault)
                        self._inject(stack, fault)
                accepted = len(self.sent.accepted)
                progress.update(task, completed=passed, description=f"{accepted} accepted, {len(self.injected)} faults")
                time.sleep(0.1)
        for sender in senders:
            sender.over.set()
        self._let_go(all_of_them=True)
        self.engine.wait_until_up()

    def _inject(self, stack: Stack, fault: PlannedFault) -> None:
        if fault.kind is FaultKind.KILL_ENGINE:
            dealt = self.engine.kill(fault.hold_s)
        else:
            roles = stack.workers if fault.kind in (FaultKind.KILL_WORKER, FaultKind.STOP_WORKER) else stack.ingresses
            stops = fault.kind in (FaultKind.STOP_WORKER, FaultKind.STOP_INGRESS)
            dealt = self._hit(roles[fault.target], fault.hold_s if stops else None)
        if dealt:
            self.injected.append(InjectedFault(system_clock(), fault.kind))

    def _hit(self, role: Role, hold_s: float | None) -> bool:
        if hold_s is None:
            return role.signal(signal.SIGKILL)
        if role.stopped or not role.signal(signal.SIGSTOP):
            return False
        self._held.append((time.monotonic() + hold_s, role))
        return True

    def _mend_engine(self, canary: Canary) -> None:
        if self.engine.dumb(canary.heard_at):
            self.dumb += self.engine.kill(0.0)

    def _let_go(self, *, all_of_them: bool = False) -> None:
        now = time.monotonic()
        due = [role for until, role in self._held if until <= now or all_of_them]
        self._held = [(until, role) for until, role in self._held if role not in due]
        for role in due:
            role.signal(signal.SIGCONT)

    # -- the end --
    def _drain(self, stack: Stack, senders: list[Sender], canary: Canary) -> float:
        """Wait, with a limit, until every message that was accepted has ended; how long that took."""
        begun = time.monotonic()
        queues = self._queues(stack)
        with self.console.status("Waiting for the rest ..."):
            while time.monotonic() - begun < DRAIN_S:
                self._mend_engine(canary)
                with contextlib.suppress(MillraceError):
                    posted = not any(sender.is_alive() for sender in senders)
                    if posted and all(status in ("done", "dead") for status in self._statuses(queues).values()):
                        break
                time.sleep(1.0)
        for sender in senders:
            sender.gone.set()
            sender.join()
        return time.monotonic() - begun

    def _queues(self, stack: Stack) -> list[Queue]:
        definitions = load(stack.definitions)
        store = DynamoStore(dynamodb_client(endpoint_url=self.engine.url, region=REGION), NAMES)
        return [Runtime(store, MemoryBlobs()).queue(TENANT, definitions.queue(name).spec) for name in QUEUES]

    def _statuses(self, queues: list[Queue], more: frozenset[str] = frozenset()) -> dict[str, str]:
        statuses: dict[str, str] = {}
        for queue in queues:
            _, found = table_statuses(queue, self.sent.accepted | more)
            # A queue knows nothing of another's entries and dead letters: what says more than "done" counts.
            statuses.update({m: status for m, status in found.items() if status != "done" or m not in statuses})
        return statuses

    def _report(self, stack: Stack, canary: Canary, drain_s: float) -> Report:
        records, log = read_history(stack.logs)
        queues = self._queues(stack)
        statuses = self._statuses(queues, frozenset(record.message for record in records))
        verdict = check_history(records, ordering=Ordering.PER_KEY, statuses=statuses)
        dead_letters = [dead_letter for queue in queues for dead_letter in _dead_letters(queue)]
        max_attempts = queues[0].spec.delivery.max_attempts
        runs = Counter(record.message for record in records if record.event is HistoryEvent.STARTED)
        wrongs = wrongs_of(self.sent, statuses, dead_letters, runs, max_attempts)
        wrongs += [f"half a line in {line}" for line in log.torn]
        if self.sent.given_up:
            wrongs.append(f"{self.sent.given_up} messages could not be posted before the end")
        return Report(
            verdict,
            self.sent,
            self.injected,
            recoveries(records, self.injected),
            longest_life(records),
            canaries=len(canary.acknowledged),
            canaries_lost=len(canary.lost()),
            dumb=self.dumb,
            history_lines=log.recorded,
            drain_s=drain_s,
            wrongs=wrongs,
        )


def _dead_letters(queue: Queue) -> Iterator[DeadLetter]:
    cursor: str | None = "0"
    while cursor is not None:
        page = queue.store.read_dead_letters(queue.tenant, queue.spec.name, cursor, END, 100)
        yield from page.items
        cursor = page.next


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description="Kill everything; lose nothing.")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=5.0, help="messages a second")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ingresses", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder to keep tables and logs in; else they are removed")
    given = parser.parse_args(arguments)
    if not 0 < given.minutes <= MAX_MINUTES or not 0 < given.rate <= MAX_RATE:
        parser.error(f"at most {MAX_MINUTES:g} minutes and {MAX_RATE:g} messages a second")
    if not 1 <= given.workers <= 10 or not 1 <= given.ingresses <= 5:
        parser.error("1 to 10 workers, 1 to 5 ingresses")
    return given


def main(arguments: list[str]) -> int:
    given = options(arguments)
    os.environ.update(CREDENTIALS)
    # An engine that is started again and again should not spend its life on compiling itself.
    os.environ.setdefault("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    console = Console()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    with tempfile.TemporaryDirectory(dir=SCRATCH if SCRATCH.is_dir() else None) as scratch:
        home = given.keep or Path(scratch)
        home.mkdir(parents=True, exist_ok=True)
        try:
            report = Chaos(home, given, console).run()
        except KeyboardInterrupt:
            console.print("Stopped; everything that was started here has ended.")
            return 130
        except StackFailed as failed:
            console.print(f"[red]{failed}[/red]")
            return VOID
    console.print(report.table())
    for finding in report.verdict.findings[:20]:
        console.print(f"[red]{finding.fault}[/red] {finding.message}: {finding.shown_by}", soft_wrap=True)
    for wrong in report.wrongs[:20]:
        console.print(f"[red]wrong[/red] {wrong}", soft_wrap=True)
    if report.canaries_lost:
        console.print("[yellow]The engine lost what it had acknowledged: this run shows nothing.[/yellow]")
        return VOID
    console.print("[green]nothing lost[/green]" if report.right else "[red]a promise was broken[/red]")
    return 0 if report.right else LOST


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
