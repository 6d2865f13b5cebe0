"""What the functions know of a queue or a webhook: compiled definitions as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from millrace.definitions.expression import Expression
from millrace.definitions.message_type import STRING, TIME, Field, RecordType
from millrace.model.errors import ExpressionFailed
from millrace.model.queue_spec import QueueSpec
from millrace.model.values import dataclass

#: The group of all messages for which a queue's key has no value: they are kept, in order among themselves.
NO_KEY = "(none)"


class TargetKind(StrEnum):
    """Where the work of a message is done."""

    COMMAND = "command"  #: a registered handler, `Entity.Name`
    HTTP = "http"  #: a POST of the rendered input as JSON
    LAMBDA = "lambda"  #: an invocation with the rendered input as its event
    QUEUE = "queue"  #: the rendered input becomes a message of another queue


class SecretKind(StrEnum):
    """Where a secret is kept."""

    ENV = "env"
    SECRETS_MANAGER = "secretsmanager"
    SSM = "ssm"


@dataclass(frozen=True, slots=True)
class SecretReference:
    """A secret by the name of its place, never its value, and when it counts."""

    source: SecretKind
    name: str
    valid_from: datetime | None = None
    valid_until: datetime | None = None

    @property
    def reference(self) -> str:
        """As `millrace.signatures` takes it: `env:NAME`."""
        return f"{self.source}:{self.name}"

    def valid_at(self, now: datetime) -> bool:
        started = self.valid_from is None or self.valid_from <= now
        ended = self.valid_until is not None and self.valid_until <= now
        return started and not ended


@dataclass(frozen=True, slots=True)
class Target:
    """One destination of a queue's messages, and what it is given."""

    kind: TargetKind
    name: str  #: `Entity.Name`, an address, a function's name or a queue's
    input: Mapping[str, Expression] | None  #: None hands over the whole message
    secrets: tuple[SecretReference, ...] = ()  #: what signs calls of an `http` target; none: the deployment's

    def render(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The input for one message. Raises ExpressionFailed naming the first field that has no value."""
        if self.input is None:
            return dict(message)
        return {name: expression.evaluate(message) for name, expression in self.input.items()}

    def secrets_at(self, now: datetime) -> tuple[str, ...]:
        """The secrets of its own that count at a moment, by reference; during a rotation there are two."""
        return tuple(secret.reference for secret in self.secrets if secret.valid_at(now))

    @property
    def entity(self) -> str:
        return self.name.partition(".")[0]

    @property
    def command(self) -> str:
        return self.name.partition(".")[2]


@dataclass(frozen=True, slots=True)
class QueueDefinition:
    """One queue: what the engine promises (`spec`) and what its messages are and become."""

    spec: QueueSpec
    app: str
    message_type: RecordType | None  #: None takes any bytes; then there are no targets and no expressions
    targets: tuple[Target, ...]
    filter: Expression | None
    key: Expression | None  #: order (`per_key`) or fairness (unordered with `key:`)
    idempotency_key: Expression | None
    dead_letter_queue: str | None

    @property
    def name(self) -> str:
        return self.spec.name

    def accepts(self, message: Mapping[str, Any]) -> bool:
        """Whether the filter lets a message in. A filter that fails lets it in: it drops only what it can judge."""
        if self.filter is None:
            return True
        try:
            return self.filter.evaluate(message) is not False
        except ExpressionFailed:
            return True

    def key_of(self, message: Mapping[str, Any]) -> str | None:
        """The ordering or fairness key; None where the queue has none, or the message has no value for it."""
        return None if self.key is None else _key_text(self.key, message)

    def idempotency_key_of(self, message: Mapping[str, Any]) -> str | None:
        """The key that makes a repeat of a message one message; None where the message has none."""
        return None if self.idempotency_key is None else _key_text(self.idempotency_key, message)


def _key_text(expression: Expression, message: Mapping[str, Any]) -> str | None:
    try:
        value = expression.evaluate(message)
    except ExpressionFailed:
        return None
    if isinstance(value, str):
        return value or None
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


class CatchUp(StrEnum):
    """What becomes of ticks that no sweep met in time."""

    LATEST = "latest"  #: the newest of them is enqueued
    ALL = "all"
    NONE = "none"


#: What the message of a schedule may be made of.
SCHEDULE_MESSAGE = RecordType({"tick": Field(TIME), "schedule": Field(STRING)})


@dataclass(frozen=True, slots=True)
class ScheduleDefinition:
    """A message that is enqueued by the clock."""

    name: str
    app: str
    queue: str
    cron: str
    timezone: str
    catch_up: CatchUp
    tenant: str | None  #: None: the deployment's default
    message: Mapping[str, Expression]

    @property
    def rule(self) -> str:
        """When it is due; a schedule whose rule is changed begins anew."""
        return f"{self.cron} {self.timezone}"

    def render(self, tick: str) -> dict[str, Any]:
        """The message of a tick. Raises ExpressionFailed."""
        given = {"tick": tick, "schedule": self.name}
        return {name: expression.evaluate(given) for name, expression in self.message.items()}


@dataclass(frozen=True, slots=True)
class HmacSettings:
    """A signature scheme that no preset describes. None leaves a setting to `millrace.signatures.generic`."""

    header: str
    prefix: str | None = None
    algorithm: str | None = None
    encoding: str | None = None
    key: str | None = None  #: how the secret is written
    place: str | None = None  #: where the signature is; its `header` is then a parameter, or a path of the body
    separator: str | None = None
    timestamp_header: str | None = None
    timestamp_prefix: str | None = None  #: of a time that stands in the signature's header
    timestamp_unit: str | None = None
    tolerance_seconds: int | None = None
    template: str | None = None  #: what is signed: `{body}`, `{timestamp}`, `{id}`, `{url}` and text between them
    id_header: str | None = None
    success_status: int | None = None
    overload_status: int | None = None


class TenantPaths(StrEnum):
    """Which declared tenants may stand in a webhook's path."""

    OWN = "own"  #: those that have a secret of their own for it
    SHARED = "shared"  #: the others too: whoever holds the common secret can send to each of them


@dataclass(frozen=True, slots=True)
class WebhookDefinition:
    """One way in: how a call is verified, and where its message goes."""

    name: str
    app: str
    provider: str | None  #: a preset of `millrace.signatures`
    hmac: HmacSettings | None  #: set where there is no preset; both None only where the definition says `verify: none`
    secrets: tuple[SecretReference, ...]
    queue: str | None  #: None: the target runs at once and the caller waits for it
    target: Target | None
    message_type: RecordType | None  #: of the queue, or of the message that a synchronous target is rendered from
    public_url: str | None = None  #: the address that the provider signs (Twilio, Square)
    tolerance_seconds: int | None = None  #: of a preset; None keeps the provider's
    verify_token: SecretReference | None = None  #: what a handshake must repeat (Meta)
    tenants: TenantPaths = TenantPaths.OWN

    @property
    def verified(self) -> bool:
        return self.provider is not None or self.hmac is not None

    @property
    def signature_settings(self) -> dict[str, Any] | None:
        """What `millrace.signatures.scheme_from` takes; None where nothing is verified."""
        if self.provider is not None:
            given: dict[str, Any] = {"provider": self.provider, "tolerance_seconds": self.tolerance_seconds}
        elif self.hmac is not None:
            given = {name: getattr(self.hmac, name) for name in self.hmac.__slots__}
        else:
            return None
        return {name: value for name, value in given.items() if value is not None}

    def secrets_at(self, now: datetime) -> list[str]:
        """The secrets that count at a moment, by reference; during a rotation there are two."""
        return [secret.reference for secret in self.secrets if secret.valid_at(now)]

    def tokens_at(self, now: datetime) -> list[str]:
        """What a handshake must repeat at a moment, by reference, where the provider asks with one."""
        token = self.verify_token
        return [token.reference] if token is not None and token.valid_at(now) else []
