"""A queue as a person reads it: when a failing message is tried again, what the limits are, where messages go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

from millrace.definitions.model import NO_KEY, QueueDefinition, ScheduleDefinition, WebhookDefinition
from millrace.definitions.unsigned import readers_of, unsigned_headers
from millrace.model.queue_spec import PRIORITIES, Jitter, Ordering, QueueSpec, RetryPolicy
from millrace.signatures.presets import scheme_from


@dataclass(frozen=True, slots=True)
class PlannedAttempt:
    """One run of a message that keeps failing. Times are the longest possible, run times not counted."""

    number: int
    wait_ms: int  #: before this run; with full jitter anything up to it
    since_first_ms: int


def timetable(delivery: RetryPolicy) -> list[PlannedAttempt]:
    """Every attempt of a message that never succeeds."""
    attempts = [PlannedAttempt(1, 0, 0)]
    for number in range(2, delivery.max_attempts + 1):
        wait = min(delivery.max_backoff_ms, delivery.initial_backoff_ms * 2 ** (number - 2))
        attempts.append(PlannedAttempt(number, wait, attempts[-1].since_first_ms + wait))
    return attempts


def next_runs(schedules: Iterable[ScheduleDefinition], now: int) -> Iterator[tuple[str, str]]:
    """What is enqueued by the clock, as name and sentence, with the next three times."""
    from millrace.definitions.ticks import ticks

    for schedule in schedules:
        times = islice(ticks(schedule.cron, schedule.timezone, now), 3)
        zone = ZoneInfo(schedule.timezone)
        shown = ", ".join(f"{datetime.fromtimestamp(tick / 1000, zone):%Y-%m-%d %H:%M %Z}" for tick in times)
        rule = f"{schedule.cron} ({schedule.timezone}), missed ticks: {schedule.catch_up.value}"
        yield "schedule", f"{schedule.name}: {rule}; next {shown}"


def limits(queue: QueueDefinition, webhooks: Iterable[WebhookDefinition] = ()) -> Iterator[tuple[str, str]]:
    """The promises of a queue, as name and sentence; with its webhooks also what they believe without proof."""
    spec = queue.spec
    yield "takes", _type(queue)
    yield "order", _order(queue)
    if queue.key is not None:
        yield "no key", f"messages for which {queue.key.text} has no value share the group {NO_KEY}"
    yield "priority", _priority(spec)
    yield "shards", str(spec.shards)
    yield "at most", f"{spec.retention.max_depth:,} unfinished messages, then 503"
    yield "message size", f"up to {spec.max_body_bytes:,} bytes"
    if spec.encrypt:
        yield "encrypted", f"bodies, results and states, under the KMS key {spec.encrypt}"
    if not spec.shares_dictionary:
        yield "packing", "each body by itself: nothing that messages share is kept apart from them"
    yield "kept for", f"{in_words(spec.retention.max_age_seconds * 1000)}, then a dead letter"
    yield "dead letters", _dead_letters(queue)
    yield "repeats", _repeats(queue)
    yield "lease", f"{in_words(spec.lease_ms)}, extended while the work runs"
    yield "one run", f"at most {in_words(int(spec.execution_timeout_seconds * 1000))}"
    yield "at once", f"{spec.max_concurrency:,} runs over all workers"
    if queue.key is not None and spec.concurrency_per_key is not None:
        yield (
            "of one key",
            f"at most {spec.concurrency_per_key:,} in hand; one that waits for its next try is among them",
        )
    if spec.rate_per_second is not None:
        yield "rate", f"{spec.rate_per_second:g} starts a second over all workers"
    if queue.filter is not None:
        yield "only if", queue.filter.text
    for target in queue.targets:
        fields = "the whole message" if target.input is None else ", ".join(target.input) or "nothing"
        signed = " or ".join(secret.reference for secret in target.secrets)
        yield "goes to", f"{target.kind} {target.name} with {fields}{f', signed with {signed}' if signed else ''}"
    if not queue.targets:
        yield "goes to", "whoever dequeues it over the API, or replays it"
    for webhook in webhooks:
        yield from _unsigned(queue, webhook)


def _unsigned(queue: QueueDefinition, webhook: WebhookDefinition) -> Iterator[tuple[str, str]]:
    settings = webhook.signature_settings
    if settings is None:
        yield "not signed", f"anything: the webhook {webhook.name} lets anybody call"
        return
    scheme = scheme_from(settings)
    if scheme.bearer:
        sent = "the secret itself" if scheme.jwt is None else "a token that any delivery could have"
        yield "not signed", f"anything: {scheme.name} (webhook {webhook.name}) sends {sent}"
    if scheme.partial:
        yield "not signed", f"most of the body: {scheme.name} (webhook {webhook.name}) signs some fields"
    for header, names in unsigned_headers(scheme, readers_of(queue)).items():
        where = ", ".join(dict.fromkeys(names))
        yield (
            "not signed",
            f"the header {header}, read by {where}: {scheme.name} (webhook {webhook.name}) does not sign it",
        )


def _type(queue: QueueDefinition) -> str:
    return "any bytes" if queue.message_type is None else queue.message_type.describe()


def _order(queue: QueueDefinition) -> str:
    key = "" if queue.key is None else queue.key.text
    match queue.spec.ordering:
        case Ordering.FIFO:
            return "one after the other, as they came"
        case Ordering.PER_KEY:
            several = f", {queue.spec.concurrency_per_key} at once" if (queue.spec.concurrency_per_key or 1) > 1 else ""
            return f"as they came within one {key}{several}"
    return f"none; every {key} takes its turn" if queue.spec.fair else "none"


def _priority(spec: QueueSpec) -> str:
    names = [name for name, number in PRIORITIES.items() if number == spec.priority]
    return f"{names[0]} ({spec.priority})" if names else str(spec.priority)


def _dead_letters(queue: QueueDefinition) -> str:
    kept = in_words(queue.spec.retention.dead_letter_seconds * 1000)
    named = f" as in {queue.dead_letter_queue}" if queue.dead_letter_queue else ""
    return f"kept for {kept}{named}, replayable"


def _repeats(queue: QueueDefinition) -> str:
    idempotency = queue.spec.idempotency
    own = "the sender's key"
    key = own if queue.idempotency_key is None else f"{queue.idempotency_key.text} (else of {own})"
    answer = " and get the first one's result" if idempotency.cache_result else ""
    return f"of {key} within {in_words(idempotency.window_seconds * 1000)} are one message{answer}"


def describe_wait(attempt: PlannedAttempt, jitter: Jitter) -> str:
    if attempt.number == 1:
        return "at once"
    prefix = "up to " if jitter is Jitter.FULL else ""
    return f"{prefix}{in_words(attempt.wait_ms)}"


def in_words(milliseconds: int) -> str:
    """`90061000` as `1 d 1 h 1 min 1 s`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds, rest = divmod(milliseconds, 1000)
    parts = []
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        count, seconds = divmod(seconds, length)
        if count:
            parts.append(f"{count} {unit}")
    if rest:
        parts.append(f"{seconds + rest / 1000:g} s")
    elif seconds:
        parts.append(f"{seconds} s")
    return " ".join(parts)
