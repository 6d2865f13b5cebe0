"""Commands on messages: `enqueue`, `dequeue`, `ack`, `nack`, `release`, `extend`, `status`."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from millrace.cli.connection import ApiConnection, CliError, Exit, remote
from millrace.cli.follow import follow
from millrace.cli.moments import duration, moment
from millrace.cli.printing import plain, print_exports, print_facts, print_json, print_unset

if TYPE_CHECKING:
    from millrace.client import Client

_queue = click.argument("queue")
_held_queue = click.option("-q", "--queue", envvar="MILLRACE_QUEUE", required=True, help="Default: MILLRACE_QUEUE.")
_claim = click.argument("claim", envvar="MILLRACE_CLAIM")
#: What a dequeue exports.
EXPORTED = ("QUEUE", "CLAIM", "MESSAGE_ID", "ATTEMPT", "VERSION", "CORRELATION_ID", "LEASE_UNTIL", "PAYLOAD")
_WAIT = click.FloatRange(0, 20)


def _seconds(value: float | None) -> int | None:
    return None if value is None else round(value * 1000)


@click.command("enqueue")
@_queue
@click.argument("body", required=False)
@click.option(
    *("-f", "--file", "--body-file", "file"),
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send a file's bytes; a large one is uploaded (up to the queue's max_body_bytes, at most 100 MB).",
)
@click.option("--content-type", help="Of a file or of standard input; default: application/json.")
@click.option("-i", "--idempotency-key", help="A repeat within the queue's window is the same message.")
@click.option("--delay", type=click.FloatRange(0), help="Seconds before it is handed out.")
@click.option("--in", "after", callback=duration, help="The same with a unit: 90s, 10m, 2h, 1d.")
@click.option("--at", "not_before", callback=moment, help="Time to hand it out at, as 2026-11-20T08:00Z.")
@click.option("--follow", "follows", is_flag=True, help="Follow it to its end; the exit code says done or dead.")
@click.option("-p", "--priority", help="low, normal, high, critical, or a number.")
@click.option("-k", "--key", help="Ordering key: messages of one key run in order, or take turns with other keys.")
@click.option("--project")
@click.option("-l", "--label", "labels", multiple=True)
@click.option("--correlation-id")
@remote
def enqueue_command(
    connection: ApiConnection,
    queue: str,
    body: str | None,
    file: Path | None,
    content_type: str | None,
    *,
    delay: float | None,
    after: float | None,
    not_before: datetime | None,
    follows: bool,
    **options: Any,
) -> None:
    """Enqueue a message: BODY as JSON, a file's bytes, or standard input."""
    if body is not None and file is not None:
        raise click.UsageError("Give a body or a file, not both.")
    if sum(given is not None for given in (delay, after, not_before)) > 1:
        raise click.UsageError("Give one of --delay, --in and --at.")
    content: Any = _parsed(body) if body is not None else file.read_bytes() if file else sys.stdin.buffer.read()
    if isinstance(content, bytes):
        content_type = content_type or "application/json"
    priority = options.pop("priority")
    labels = options.pop("labels")
    with connection.client() as client:
        receipt = client.enqueue(
            queue,
            content,
            content_type=content_type,
            delay_ms=_seconds(after if delay is None else delay),
            not_before=not_before,
            priority=int(priority) if priority and priority.isdecimal() else priority,
            labels=labels or None,
            **options,
        )
        facts = {"message_id": receipt.message_id, "status": receipt.status, "duplicate": receipt.duplicate}
        facts["correlation_id"] = receipt.correlation_id
        if not (follows and connection.as_json):
            _say(connection, facts)
        if follows:
            _follow(connection, client, queue, receipt.message_id)


def _follow(connection: ApiConnection, client: Client, queue: str, message_id: str) -> None:
    found, end = follow(client, queue, message_id)
    if connection.as_json:
        print_json(found)
    raise SystemExit(end)


def _parsed(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError as exc:
        raise click.UsageError(f"BODY is not JSON ({exc}). Quote text twice, or send a file with -f.") from exc


def _forgetting(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where a dequeue fails, whatever the reason, what is evaluated forgets the message before and fails too."""

    @wraps(command)
    def forgets(**given: Any) -> Any:
        try:
            return command(**given)
        except click.ClickException:
            if given["payload_out"] is not None and given["output"] != "json":
                print_unset(EXPORTED)
            raise

    return forgets


@click.command("dequeue")
@_queue
@click.option("-w", "--wait", type=_WAIT, default=0.0, show_default=True, help="Seconds to wait for a message.")
@click.option("--lease", type=click.FloatRange(0.001), help="Lease in seconds; default: the queue's own.")
@click.option("--owner", help="Name of the worker, shown to operators.")
@click.option("--project")
@click.option("-l", "--label", "labels", multiple=True, help="Only messages with all of these labels.")
@click.option("--payload-out", type=click.Path(dir_okay=False, path_type=Path), help="Write the payload to a file.")
@_forgetting
@remote
def dequeue_command(
    connection: ApiConnection, queue: str, wait: float, lease: float | None, payload_out: Path | None, **options: Any
) -> None:
    """Claim one message.

    Its payload goes to standard output and the exports for ack, nack and extend to standard error; with
    --payload-out the payload goes to the file and the exports to standard output. Where there is nothing, the
    variables are unset and the evaluated line fails, so that no loop can take an old message for a new one:

    \b
        while eval "$(millrace dequeue Jobs --wait 20 --payload-out job.json)"; do
            work < job.json && millrace ack || millrace nack
        done

    `millrace work` is this loop with heartbeats and a graceful stop.
    """
    with connection.client() as client:
        jobs = client.dequeue(queue, wait_ms=round(wait * 1000), lease_ms=_seconds(lease), **options)
        if not jobs:
            raise CliError(f"No message is ready in {queue}.", Exit.NOTHING)
        message = jobs[0].message
        payload = b""
        if payload_out is None:
            payload = jobs[0].read_body()
        else:
            with payload_out.open("wb") as file:
                file.writelines([message.body] if message.body is not None else jobs[0].stream_body())
    facts = {
        "QUEUE": queue,
        "CLAIM": message.claim,
        "MESSAGE_ID": message.message_id,
        "ATTEMPT": message.attempt,
        "VERSION": message.version,
        "CORRELATION_ID": message.correlation_id,
        "LEASE_UNTIL": message.lease_until.isoformat(),
    }
    if payload_out is not None:
        facts["PAYLOAD"] = payload_out
    if connection.as_json:
        shown = {name.lower(): value for name, value in facts.items()}
        body = {} if payload_out else {"body_base64": base64.b64encode(payload).decode()}
        print_json({**shown, "content_type": message.content_type, **body})
        return
    print_exports(facts, err=payload_out is None)
    if payload_out is None:
        sys.stdout.buffer.write(payload)


@click.command("ack")
@_claim
@_held_queue
@click.option("--result", help="JSON, kept for repeats of the idempotency key.")
@remote
def ack_command(connection: ApiConnection, claim: str, queue: str, result: str | None) -> None:
    """Record that a claimed message is done. CLAIM comes from MILLRACE_CLAIM unless given."""
    with connection.client() as client:
        client.ack(queue, claim, None if result is None else _parsed(result))
    _say(connection, {"acked": True})


@click.command("nack")
@_claim
@_held_queue
@click.option("--delay", type=click.FloatRange(0), help="Seconds until the retry; default: the queue's backoff.")
@click.option("--error", default="", help="Error text, shown to operators.")
@click.option("--error-type", default="Nack", show_default=True)
@click.option("--reject", is_flag=True, help="Do not retry: make it a dead letter at once.")
@remote
def nack_command(connection: ApiConnection, claim: str, queue: str, delay: float | None, **options: Any) -> None:
    """Record a failed run: retried after its backoff, or a dead letter."""
    with connection.client() as client:
        nacked = client.nack(queue, claim, delay_ms=_seconds(delay), **options)
    _say(connection, {"outcome": nacked.outcome, "retry_at": nacked.retry_at})


@click.command("release")
@_claim
@_held_queue
@remote
def release_command(connection: ApiConnection, claim: str, queue: str) -> None:
    """Give a claimed message back at once, charging no attempt."""
    with connection.client() as client:
        client.release(queue, claim)
    _say(connection, {"released": True})


@click.command("extend")
@_claim
@_held_queue
@click.option("--lease", type=click.FloatRange(0.001), help="Seconds from now; default: the queue's lease.")
@remote
def extend_command(connection: ApiConnection, claim: str, queue: str, lease: float | None) -> None:
    """Hold a claim for longer."""
    with connection.client() as client:
        extended = client.extend(queue, claim, _seconds(lease))
    _say(connection, {"lease_until": extended.until.isoformat()})


@click.command("status")
@_queue
@click.argument("message_id")
@click.option("--follow", "follows", is_flag=True, help="Follow it to its end; the exit code says done or dead.")
@remote
def status_command(connection: ApiConnection, queue: str, message_id: str, *, follows: bool) -> None:
    """Show where a message is, and its history."""
    with connection.client() as client:
        if follows:
            _follow(connection, client, queue, message_id)
        found = dict(client.status(queue, message_id))
    if connection.as_json:
        print_json(found)
        return
    entry, dead_letter = found.pop("entry") or {}, found.pop("dead_letter") or {}
    history = found.pop("history")
    found = {**found, "dead_letter": dead_letter.get("id")}
    del found["timeline"]
    print_facts({**found, **{name: entry[name] for name in ("attempts", "owner", "due_at") if entry.get(name)}})
    for attempt in history:
        line = f"attempt {attempt['number']} by {attempt['owner']}: {attempt['error_type']} {attempt['error']}"
        click.echo(f"  {plain(line)}")


def _say(connection: ApiConnection, facts: dict[str, Any]) -> None:
    print_json(facts) if connection.as_json else print_facts(facts)


COMMANDS = (
    enqueue_command,
    dequeue_command,
    ack_command,
    nack_command,
    release_command,
    extend_command,
    status_command,
)
