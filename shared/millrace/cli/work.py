"""`millrace work QUEUE -- PROGRAM`: a worker out of any program, one run of it for each message."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from millrace.cli.connection import ApiConnection, CliError, Exit, remote

if TYPE_CHECKING:
    from millrace.client import Delivery
    from millrace.handlers.batches import BatchSettings

#: Of a program's standard error, kept with a failed run.
ERROR_BYTES = 1_000
#: A program that is told to end is killed after this.
KILL_AFTER_S = 10.0
#: Without --once and --drain a fetch waits this long for a message.
LONG_POLL_S = 10.0


@dataclass(frozen=True, slots=True)
class ProgramRun:
    """How a run of the program ended."""

    code: int  #: below 0: ended by that signal
    output: bytes
    error: str

    @property
    def kind(self) -> str:
        return f"Exit{self.code}" if self.code >= 0 else signal.Signals(-self.code).name


@dataclass(slots=True)
class ProgramWorker:
    """Runs a program on deliveries and tells their queue what came of it."""

    program: tuple[str, ...]
    as_file: bool = False
    keep_output: bool = False
    reject_on: tuple[int, ...] = ()
    delay_ms: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    stop: Callable[[], None] = lambda: None  #: called where going on makes no sense
    broken: str = ""  #: why
    _running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def handle(self, delivery: Delivery) -> None:
        """One run: acked on exit code 0, else nacked or rejected. Not started at all: given back."""
        payload = delivery.read_body()
        try:
            ran = self._run(delivery, payload)
        except OSError as error:
            self.broken = f"{self.program[0]} cannot be started: {error.strerror}."
            delivery.release()
            self.stop()
            return
        self._finish(delivery, ran)

    def _finish(self, delivery: Delivery, ran: ProgramRun) -> None:
        if delivery.lost or delivery.finished:
            self.say(delivery, "lost")
        elif ran.code == 0:
            delivery.ack(_result(ran.output) if self.keep_output else None)
            self.say(delivery, "done")
        else:
            reject = ran.code in self.reject_on
            nacked = delivery.nack(error_type=ran.kind, error=ran.error, delay_ms=self.delay_ms, reject=reject)
            self.say(delivery, "dead" if nacked.outcome == "dead" else "failed", f" ({ran.kind})")

    def done(self, delivery: Delivery) -> None:
        """A command returned and its message is acked. What a program did is said where its exit code is known."""
        if not self.program:
            self.say(delivery, "done")

    def failed(self, delivery: Delivery, error: BaseException) -> None:
        """What the program did could not be told: the message runs again."""
        self.say(delivery, "failed", f" ({error})")

    def lost(self, delivery: Delivery) -> None:
        """End the program of a delivery that is no longer ours, and wait until it has ended."""
        with self._lock:
            process = self._running.get(id(delivery))
        if process is None:
            return
        _signal(process, signal.SIGTERM)
        try:
            process.wait(KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.wait()

    def _run(self, delivery: Delivery, payload: bytes) -> ProgramRun:
        with tempfile.TemporaryDirectory(prefix="millrace-") as folder:
            environment = {**os.environ, **_facts(delivery)}
            if self.as_file:
                path = Path(folder, "payload")
                path.write_bytes(payload)
                environment["MILLRACE_PAYLOAD"] = str(path)
            # A group of its own: Ctrl-C in the terminal reaches this process alone, which lets the program finish.
            process = subprocess.Popen(  # noqa: S603 (the program is what the caller asked for)
                self.program,
                stdin=subprocess.DEVNULL if self.as_file else subprocess.PIPE,
                stdout=subprocess.PIPE if self.keep_output else None,
                stderr=subprocess.PIPE,
                env=environment,
                process_group=0,
            )
            with self._lock:
                self._running[id(delivery)] = process
            if delivery.lost:
                self.lost(delivery)
            try:
                return _talk(process, b"" if self.as_file else payload)
            finally:
                with self._lock:
                    del self._running[id(delivery)]

    def say(self, delivery: Delivery, what: str, more: str = "") -> None:
        with self._lock:
            self.counts[what] = self.counts.get(what, 0) + 1
        click.echo(f"{delivery.message.message_id} attempt {delivery.attempt}: {what}{more}", err=True)


def _facts(delivery: Delivery) -> dict[str, str]:
    message = delivery.message
    return {
        "MILLRACE_QUEUE": message.queue,
        "MILLRACE_CLAIM": message.claim,
        "MILLRACE_MESSAGE_ID": message.message_id,
        "MILLRACE_ATTEMPT": str(message.attempt),
        "MILLRACE_VERSION": str(message.version),
        "MILLRACE_CORRELATION_ID": message.correlation_id,
        "MILLRACE_CONTENT_TYPE": message.content_type,
        "MILLRACE_KEY": message.key,
    }


def _talk(process: subprocess.Popen[bytes], payload: bytes) -> ProgramRun:
    """Give it the payload, pass its standard error on and keep the end of it, and wait for its end."""
    errors, output = bytearray(), bytearray()
    readers = [threading.Thread(target=_pass_on, args=(process.stderr, errors), daemon=True)]
    if process.stdout is not None:
        readers.append(threading.Thread(target=_collect, args=(process.stdout, output), daemon=True))
    for reader in readers:
        reader.start()
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError), process.stdin:  # broken: it has read enough
            process.stdin.write(payload)
    code = process.wait()
    for reader in readers:
        reader.join(1.0)  # what the program left behind may hold its output open
    return ProgramRun(code, bytes(output), errors.decode("utf-8", "replace").strip())


def _pass_on(source: IO[bytes], kept: bytearray) -> None:
    with source:
        for line in source:
            sys.stderr.buffer.write(line)
            sys.stderr.buffer.flush()
            kept += line
            del kept[:-ERROR_BYTES]


def _collect(source: IO[bytes], kept: bytearray) -> None:
    with source:
        for part in iter(lambda: source.read(65_536), b""):
            kept += part


def _result(output: bytes) -> Any:
    """Standard output as JSON where it is, else as text, else as bytes; nothing for nothing."""
    if not output.strip():
        return None
    try:
        text = output.decode()
        return json.loads(text)
    except UnicodeDecodeError:
        return output
    except ValueError:
        return text


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        os.killpg(process.pid, number)


@click.command("work")
@click.argument("queue")
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@click.option("--command", "command_name", metavar="NAME", help="Run this command of the app instead of a program.")
@click.option("--file", "as_file", is_flag=True, help="Give the payload as a file: its path is in MILLRACE_PAYLOAD.")
@click.option("--result", "keep_output", is_flag=True, help="Keep standard output as the message's result.")
@click.option("--reject-on", type=click.IntRange(1, 255), multiple=True, help="Exit code: a dead letter at once.")
@click.option("--delay", type=click.FloatRange(0), help="Seconds until a retry; default: the queue's backoff.")
@click.option("-c", "--concurrency", type=click.IntRange(1, 1_000), default=1, show_default=True)
@click.option("--lease", type=click.FloatRange(0.001), help="Lease in seconds; default: the queue's own.")
@click.option("--once", is_flag=True, help="Take one message, then end.")
@click.option("--drain", is_flag=True, help="End once nothing is ready.")
@click.option("--wait", type=click.FloatRange(0, 20), help="Seconds to wait for a message; default: 0 with --once.")
@click.option("--grace", type=click.FloatRange(0), default=30.0, show_default=True, help="Seconds to finish in.")
@click.option("--owner", help="Name of the worker, shown to operators.")
@click.option("--project")
@click.option("-l", "--label", "labels", multiple=True, help="Only messages with all of these labels.")
@remote
def work_command(
    connection: ApiConnection,
    queue: str,
    program: tuple[str, ...],
    *,
    command_name: str | None,
    concurrency: int,
    lease: float | None,
    once: bool,
    drain: bool,
    wait: float | None,
    grace: float,
    owner: str | None,
    project: str | None,
    labels: tuple[str, ...],
    delay: float | None,
    **how: Any,
) -> None:
    """Run PROGRAM, or a command of the app, for each message of QUEUE.

    A program gets the payload on standard input; exit code 0 acks, any other nacks. A --command is the function that a
    worker of the deployment would call, with the same input and the same context; its module is one that COMMANDS
    names, or `commands` in this folder.

    MILLRACE_MESSAGE_ID, MILLRACE_ATTEMPT and others are in its environment. The claim is kept alive while it runs;
    where it is lost the program is ended. Ctrl-C or SIGTERM: what runs may finish, the rest is given back.

    \b
        millrace work Reports --concurrency 4 -- ./report pdf
        millrace work Reports --command Report.Build
    """
    from millrace.client import AccessDenied, BadRequest, Consumer, Hooks, ResourceNotFound

    if bool(program) == bool(command_name):
        raise click.UsageError("Name a program (after --) or a --command, one of the two.")
    if program and shutil.which(program[0]) is None:
        raise click.UsageError(f"There is no program {program[0]!r}, or it may not be executed.")
    command = _app_command(command_name) if command_name else None
    if wait is None:
        wait = 0.0 if once or drain else LONG_POLL_S
    worker = ProgramWorker(program, delay_ms=None if delay is None else round(delay * 1000), **how)
    refusals: list[BaseException] = []

    def fetch_failed(_queue: str, error: BaseException, wait_s: float) -> None:
        if once or drain or isinstance(error, AccessDenied | BadRequest | ResourceNotFound):
            refusals.append(error)
            consumer.ask_to_stop()
        else:
            click.echo(f"{error} Next try in {wait_s:.1f} s.", err=True)

    with connection.client() as client:
        hooks = Hooks(lost=worker.lost, failed=worker.failed, done=worker.done, fetch_failed=fetch_failed)
        consumer = Consumer(client, concurrency=concurrency, owner=owner, hooks=hooks, grace_s=grace)
        worker.stop = consumer.ask_to_stop
        options: dict[str, Any] = {
            "lease_ms": None if lease is None else round(lease * 1000),
            "wait_ms": round(wait * 1000),
            "project": project,
            "labels": labels,
        }
        if command is None:
            consumer.handle_delivery(queue, **options)(worker.handle)
        else:
            function, batch = command
            together: dict[str, Any] = {} if batch is None else {"batch": batch.size, "batch_wait_ms": batch.wait_ms}
            consumer.handle(queue, **options, **together)(function)
        consumer.run(drain=drain, limit=1 if once else None)
        if refusals:
            raise refusals[0]
    if worker.broken:
        raise CliError(f"{worker.broken} Its message was given back.", Exit.FAILED)
    if once:
        _end(queue, worker.counts)


def _app_command(name: str) -> tuple[Callable[..., Any], BatchSettings | None]:
    """A command of the app in this folder, or of what COMMANDS names, and how many messages it takes at once."""
    from millrace.app.registered import command_modules
    from millrace.model.errors import NotFound
    from millrace.worker.commands import load_commands

    sys.path.insert(0, str(Path.cwd()))
    modules = command_modules(os.environ)
    try:
        commands = load_commands(modules)
        return commands.find(name), commands.batch_of(name)
    except ImportError as error:
        raise click.UsageError(f"The commands in {', '.join(modules)} cannot be imported: {error}.") from error
    except NotFound as error:
        raise click.UsageError(str(error)) from error


def _end(queue: str, counts: dict[str, int]) -> None:
    """The exit code of one message."""
    if not counts:
        raise CliError(f"No message is ready in {queue}.", Exit.NOTHING)
    if "done" not in counts:
        raise SystemExit(Exit.STALE if "lost" in counts else Exit.FAILED)
