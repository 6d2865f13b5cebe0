"""Checks and compiles `schedule NAME { … }`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from millrace.definitions.expression import read_expression
from millrace.definitions.language import syntax
from millrace.definitions.language.lowering import lower
from millrace.definitions.language.queues import CheckedQueue
from millrace.definitions.language.settings import BlockReader
from millrace.definitions.language.source import Code, Span, did_you_mean
from millrace.definitions.language.syntax import Word
from millrace.definitions.message_type import read_message_type
from millrace.definitions.model import SCHEDULE_MESSAGE, CatchUp
from millrace.definitions.ticks import cron_problem, timezone_problem
from millrace.model.errors import ExpressionFailed

#: A tick to check the message with: any will do.
SAMPLE = {"tick": "2026-03-29T01:00:00.000Z", "schedule": "Sample"}


@dataclass(frozen=True)
class CheckedSchedule:
    """A compiled schedule, with the queue that linking must still find."""

    name: Word
    settings: BlockReader
    compiled: dict[str, Any]
    queue: Word | None
    places: dict[str, Span] = field(default_factory=dict)  #: of the message's fields


def check_schedule(name: Word, app: str, settings: BlockReader) -> CheckedSchedule:
    """One schedule. Everything wrong inside it is reported."""
    queue = settings.reference("queue")
    if queue is None and not settings.has("queue"):
        settings.error(name.span, Code.MISSING, f"the schedule `{name.text}` leads nowhere", "write `queue: Name`")
    cron = _cron(name, settings)
    timezone = _timezone(settings)
    message, places = _message(name, settings)
    compiled = {
        "app": app,
        "queue": None if queue is None else queue.text,
        "cron": cron,
        "timezone": timezone,
        "catch_up": settings.choice("catch_up", tuple(CatchUp), CatchUp.LATEST.value),
        "tenant": settings.text("tenant", 48),
        "message": message,
    }
    return CheckedSchedule(name, settings, compiled, queue, places)


def _cron(name: Word, settings: BlockReader) -> str | None:
    if not settings.has("cron"):
        settings.error(name.span, Code.MISSING, f"the schedule `{name.text}` has no rule", 'write `cron: "0 3 * * *"`')
        return None
    cron, value = settings.text("cron", 200), settings.expression("cron")
    problem = cron_problem(cron) if cron is not None else ""
    if problem and value is not None:
        settings.error(value.span, Code.TYPE, f"this is no cron rule: {problem}", 'write it as "0 3 * * *"')
    return cron


def _timezone(settings: BlockReader) -> str:
    name, value = settings.text("timezone", 64), settings.expression("timezone")
    problem = timezone_problem(name) if name is not None else ""
    if problem and value is not None:
        from zoneinfo import available_timezones

        settings.error(value.span, Code.UNKNOWN, problem, did_you_mean(str(name), tuple(sorted(available_timezones()))))
    return name or "UTC"


def _message(name: Word, settings: BlockReader) -> tuple[dict[str, Any], dict[str, Span]]:
    """Each field as an expression over `tick` and `schedule`."""
    written = settings.expression("message")
    if written is None or isinstance(written, syntax.Invalid):
        if not settings.has("message"):
            settings.error(name.span, Code.MISSING, f"the schedule `{name.text}` sends nothing", "write `message: {…}`")
        return {}, {}
    if not isinstance(written, syntax.MapExpr):
        settings.error(written.span, Code.TYPE, "`message` must be an object", 'write `message: {"report": "daily"}`')
        return {}, {}
    compiled: dict[str, Any] = {}
    places: dict[str, Span] = {}
    for key, value in written.entries:
        text = key.text if isinstance(key, syntax.Name) else key.value if isinstance(key, syntax.Literal) else None
        if not isinstance(text, str):
            settings.error(key.span, Code.TYPE, "a field of a message is named by a string", 'write "name": value')
            continue
        if text in compiled:
            settings.error(key.span, Code.DUPLICATE, f"`{text}` stands here twice", "remove one of them")
        compiled[text] = lower(settings.parsed, value, SCHEDULE_MESSAGE, settings.report, f"`{text}`")
        places[text] = key.span
    return compiled, places


def link_schedules(
    schedules: dict[str, CheckedSchedule], queues: dict[str, CheckedQueue], tenants: tuple[str, ...]
) -> None:
    """A schedule's queue exists and takes its message; its tenant is declared."""
    for schedule in schedules.values():
        _check_tenant(schedule, tenants)
        if schedule.queue is None:
            continue
        queue = queues.get(schedule.queue.text)
        if queue is None:
            name = schedule.queue.text
            hint = did_you_mean(name, tuple(queues), f"define it: `queue {name} {{ … }}`")
            schedule.settings.error(schedule.queue.span, Code.REFERENCE, f"there is no queue `{name}`", hint)
        elif queue.message_type is not None:
            _check_message(schedule, queue)


def _check_tenant(schedule: CheckedSchedule, tenants: tuple[str, ...]) -> None:
    tenant = schedule.compiled["tenant"]
    if tenant is not None and tenant not in tenants:
        hint = did_you_mean(tenant, tenants, f"declare it: `tenant {tenant} {{ }}`")
        place = schedule.settings.span_of("tenant")
        schedule.settings.error(place, Code.REFERENCE, f"there is no tenant `{tenant}`", hint)


def _check_message(schedule: CheckedSchedule, queue: CheckedQueue) -> None:
    """Hold the message of a sample tick against the type of its queue: another tick's differs in its time alone."""
    written = schedule.compiled["message"]
    if None in written.values() or not isinstance(schedule.settings.expression("message"), syntax.MapExpr):
        return  # reported already
    message_type = read_message_type(queue.compiled["message_type"])
    try:
        message = {name: read_expression(one, SCHEDULE_MESSAGE).evaluate(SAMPLE) for name, one in written.items()}
    except ExpressionFailed as failed:
        schedule.settings.error(schedule.name.span, Code.TYPE, f"the message has no value: {failed}")
        return
    for problem in message_type.validate(message):
        first = problem.path.split(".")[0].split("[")[0]
        place = schedule.places.get(first, schedule.settings.span_of("message"))
        message_text = f"`{queue.name.text}` does not take this message: {problem.path} should be {problem.expected}"
        schedule.settings.error(place, Code.TYPE, f"{message_text}, not {problem.found}")
