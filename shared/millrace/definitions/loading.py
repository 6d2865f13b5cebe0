"""Compiled definitions, from the JSON that `millrace compile` writes.

Nothing here parses the language: neither lark nor a CEL library is imported. A definition is built when it is first
asked for, so a function pays for the queues it serves and no others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, TypeVar

from millrace.definitions.expression import read_expression, read_optional_expression
from millrace.definitions.message_type import RecordType, read_message_type
from millrace.definitions.model import (
    SCHEDULE_MESSAGE,
    CatchUp,
    HmacSettings,
    QueueDefinition,
    ScheduleDefinition,
    SecretKind,
    SecretReference,
    Target,
    TargetKind,
    TenantPaths,
    WebhookDefinition,
)
from millrace.definitions.spelling import parse_time
from millrace.model.errors import InvalidDefinitions, NotFound, UnknownQueue
from millrace.model.queue_spec import Idempotency, Jitter, Ordering, QueueSpec, Retention, RetryPolicy

#: Version of the compiled form; another one is refused rather than half understood.
FORMAT = 1

_Definition = TypeVar("_Definition")


class Definitions:
    """Every queue, webhook and schedule of a deployment, by name."""

    def __init__(self, compiled: Mapping[str, Any]) -> None:
        self._queues: dict[str, Any] = compiled["queues"]
        self._webhooks: dict[str, Any] = compiled["webhooks"]
        self._tenants: dict[str, Any] = compiled["tenants"]
        self._schedules: dict[str, Any] = compiled["schedules"]
        self._built_schedules: dict[str, ScheduleDefinition] = {}
        self._built_queues: dict[str, QueueDefinition] = {}
        self._built_webhooks: dict[str, WebhookDefinition] = {}

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(self._queues)

    @property
    def webhooks(self) -> tuple[str, ...]:
        return tuple(self._webhooks)

    @property
    def tenants(self) -> tuple[str, ...]:
        """Those that are declared; the default tenant needs no declaration."""
        return tuple(self._tenants)

    def queues_that_outlive_bodies(self, body_days: int) -> dict[str, int]:
        """Queues that need large bodies for longer than the bucket keeps them, each with the days that it needs."""
        kept = {name: Retention(**queue["spec"]["retention"]).body_days for name, queue in self._queues.items()}
        return {name: days for name, days in kept.items() if days > body_days}

    def queue(self, name: str) -> QueueDefinition:
        """One queue. Raises UnknownQueue with the nearest name."""
        built = self._built_queues.get(name)
        if built is None:
            if name not in self._queues:
                raise UnknownQueue(name, self.queues, nearest_name(name, self.queues))
            built = self._built_queues[name] = _build(name, self._queues[name], read_queue)
        return built

    @property
    def schedules(self) -> tuple[str, ...]:
        return tuple(self._schedules)

    def schedule(self, name: str) -> ScheduleDefinition:
        """One schedule. Raises NotFound."""
        built = self._built_schedules.get(name)
        if built is None:
            if name not in self._schedules:
                raise NotFound("schedule", name)
            built = self._built_schedules[name] = _build(name, self._schedules[name], read_schedule)
        return built

    def schedules_of(self, queue: str) -> list[ScheduleDefinition]:
        """The schedules that feed a queue."""
        return [self.schedule(name) for name, written in self._schedules.items() if written["queue"] == queue]

    def webhooks_of(self, queue: str) -> list[WebhookDefinition]:
        """The webhooks that feed a queue."""
        return [self.webhook(name) for name, written in self._webhooks.items() if written["queue"] == queue]

    def webhook(self, name: str) -> WebhookDefinition:
        """One webhook. Raises NotFound."""
        built = self._built_webhooks.get(name)
        if built is None:
            if name not in self._webhooks:
                raise NotFound("webhook", name)
            built = self._built_webhooks[name] = _build(name, self._webhooks[name], read_webhook)
        return built

    def webhook_of(self, tenant: str, name: str, *, is_default: bool = False) -> WebhookDefinition:
        """A webhook as it is open to a tenant: with the tenant's own secrets, where it has some.

        Raises NotFound for a tenant that is neither the default one nor declared, and for a declared one without a
        secret of its own where the webhook does not share.
        """
        webhook = self.webhook(name)
        if not is_default and tenant not in self._tenants:
            raise NotFound("tenant", tenant)
        own = _build(name, self._tenants.get(tenant, {}).get(name, ()), _read_secrets)
        if own:
            return replace(webhook, secrets=own)
        if not is_default and webhook.tenants is not TenantPaths.SHARED:
            raise NotFound("webhook", name)
        return webhook


def load(source: PathLike[str] | str | bytes) -> Definitions:
    """Definitions from a file's path or from its bytes. Raises InvalidDefinitions, or OSError for the file."""
    try:
        compiled = json.loads(source if isinstance(source, bytes) else _read(source))
    except (ValueError, RecursionError) as exc:
        raise InvalidDefinitions("not JSON") from exc
    match compiled:
        case {"format": 1, "queues": dict(), "webhooks": dict(), "schedules": dict(), "tenants": dict()}:
            return Definitions(compiled)
        case {"format": found} if found != FORMAT:
            raise InvalidDefinitions(f"format {str(found)[:20]}, this library reads {FORMAT}")
    raise InvalidDefinitions("no queues, webhooks, schedules and tenants")


def _read(path: PathLike[str] | str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - pathlib alone would cost a cold start two milliseconds
        return file.read()


def nearest_name(name: str, known: tuple[str, ...]) -> str | None:
    """The known name that a person most likely meant."""
    from difflib import get_close_matches

    lowered = {candidate.lower(): candidate for candidate in reversed(known)}
    close = get_close_matches(name.lower()[:64], lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def _build(name: str, written: Any, read: Callable[[str, Any], _Definition]) -> _Definition:
    try:
        return read(name, written)
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise InvalidDefinitions(f"{name} is incomplete or malformed ({exc!r})") from exc


def read_queue(name: str, written: Mapping[str, Any]) -> QueueDefinition:
    message_type = _read_optional_type(written["message_type"])
    return QueueDefinition(
        spec=read_spec(name, written["spec"]),
        app=written["app"],
        message_type=message_type,
        targets=tuple(_read_target(target, message_type) for target in written["targets"]),
        filter=read_optional_expression(written["filter"], message_type),
        key=read_optional_expression(written["key"], message_type),
        idempotency_key=read_optional_expression(written["idempotency_key"], message_type),
        dead_letter_queue=written["dead_letter_queue"],
    )


def _read_optional_type(written: Any) -> RecordType | None:
    return None if written is None else read_message_type(written)


def read_spec(name: str, written: Mapping[str, Any]) -> QueueSpec:
    fields = dict(written)
    delivery = dict(fields.pop("delivery"))
    return QueueSpec(
        name=name,
        ordering=Ordering(fields.pop("ordering")),
        labels=tuple(fields.pop("labels")),
        retention=Retention(**fields.pop("retention")),
        delivery=RetryPolicy(jitter=Jitter(delivery.pop("jitter")), **delivery),
        idempotency=Idempotency(**fields.pop("idempotency")),
        **fields,
    )


def _read_target(written: Mapping[str, Any], message_type: RecordType | None) -> Target:
    mapping = written["input"]
    rendered = (
        None
        if mapping is None
        else {name: read_expression(expression, message_type) for name, expression in mapping.items()}
    )
    secrets = tuple(_read_secret(secret) for secret in written["secrets"])
    return Target(TargetKind(written["kind"]), written["name"], rendered, secrets)


def read_schedule(name: str, written: Mapping[str, Any]) -> ScheduleDefinition:
    fields = dict(written)
    message = {name: read_expression(one, SCHEDULE_MESSAGE) for name, one in fields.pop("message").items()}
    return ScheduleDefinition(name=name, catch_up=CatchUp(fields.pop("catch_up")), message=message, **fields)


def read_webhook(name: str, written: Mapping[str, Any]) -> WebhookDefinition:
    message_type = _read_optional_type(written["message_type"])
    target, hmac = written["target"], written["hmac"]
    return WebhookDefinition(
        name=name,
        app=written["app"],
        provider=written["provider"],
        hmac=None if hmac is None else HmacSettings(**hmac),
        secrets=_read_secrets(name, written["secrets"]),
        queue=written["queue"],
        target=None if target is None else _read_target(target, message_type),
        message_type=message_type,
        public_url=written["public_url"],
        tolerance_seconds=written["tolerance_seconds"],
        verify_token=None if written["verify_token"] is None else _read_secret(written["verify_token"]),
        tenants=TenantPaths(written["tenants"]),
    )


def _read_secrets(_name: str, written: Sequence[Mapping[str, Any]]) -> tuple[SecretReference, ...]:
    return tuple(map(_read_secret, written))


def _read_secret(written: Mapping[str, Any]) -> SecretReference:
    valid_from, valid_until = written["valid_from"], written["valid_until"]
    return SecretReference(
        source=SecretKind(written["source"]),
        name=written["name"],
        valid_from=None if valid_from is None else parse_time(valid_from),
        valid_until=None if valid_until is None else parse_time(valid_until),
    )
