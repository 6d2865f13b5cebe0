"""Checks and compiles `webhook { … }`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from millrace.definitions.language import syntax
from millrace.definitions.language.message_types import WEBHOOK_MESSAGE, resolve_record
from millrace.definitions.language.secrets import read_secret, read_secrets
from millrace.definitions.language.settings import BlockReader
from millrace.definitions.language.source import Code, did_you_mean
from millrace.definitions.language.syntax import Word
from millrace.definitions.language.targets import compile_target
from millrace.definitions.language.vocabulary import LIMITS
from millrace.definitions.message_type import RecordType
from millrace.definitions.model import TargetKind, TenantPaths
from millrace.signatures.errors import ConfigurationMissing
from millrace.signatures.presets import GENERIC, PRESETS, scheme_from
from millrace.signatures.scheme import ChallengeKind, Scheme, TimestampFormat

#: Also the name of a parameter, and a dotted path of the body.
_HEADER = re.compile(r"[A-Za-z0-9_.-]{1,100}", re.ASCII)
_WORDS = ("algorithm", "encoding", "key", "place", "separator")


@dataclass(frozen=True)
class CheckedWebhook:
    """A compiled webhook, with the queue that linking must still find."""

    name: Word
    settings: BlockReader
    compiled: dict[str, Any]
    queue: Word | None
    scheme: Scheme | None  #: None: it verifies nothing, or was reported
    unsigned_headers: frozenset[str]  #: those that the author knows nobody signs


def check_webhook(name: Word, app: str, settings: BlockReader) -> CheckedWebhook:
    """One webhook. Everything wrong inside it is reported."""
    queue = settings.reference("queue")
    message_type = _message_type(queue, settings)
    provider, hmac = _verification(name, settings)
    secrets = read_secrets(settings) + read_secrets(settings.block("verify_hmac"))
    if (provider or hmac) and not secrets:
        hint = 'write `secret_env: "NAME"` or `secret "secretsmanager:name" { valid_until: "…" }`'
        settings.error(name.span, Code.MISSING, f"the webhook `{name.text}` has no secret", hint)
    compiled = {
        "app": app,
        "provider": provider,
        "hmac": hmac,
        "secrets": secrets,
        "queue": None if queue is None else queue.text,
        "target": _target(name, queue, message_type, settings),
        "message_type": message_type.written(),
        "public_url": _public_url(settings),
        "tolerance_seconds": _whole_if_given("tolerance_seconds", settings),
        "verify_token": _verify_token(settings),
        "tenants": settings.choice("tenants", tuple(TenantPaths), TenantPaths.OWN),
    }
    _check_meta(name, provider, settings)
    return CheckedWebhook(name, settings, compiled, queue, _scheme(compiled), _unsigned_headers(settings))


def _scheme(compiled: dict[str, Any]) -> Scheme | None:
    provider, tolerance = compiled["provider"], compiled["tolerance_seconds"]
    given = {"provider": provider, "tolerance_seconds": tolerance} if provider else compiled["hmac"]
    try:
        return None if given is None else scheme_from(given)
    except ConfigurationMissing:
        return None


def _check_meta(name: Word, provider: str | None, settings: BlockReader) -> None:
    """Without its token the handshake of Meta is refused, and no delivery ever comes."""
    asks = provider is not None and PRESETS[provider].challenge is ChallengeKind.META
    if asks and not settings.has("verify_token"):
        hint = 'write `verify_token: "env:NAME"`, and give Meta the same text'
        settings.error(name.span, Code.MISSING, f"{provider} asks `{name.text}` for a token before it sends", hint)


def _unsigned_headers(settings: BlockReader) -> frozenset[str]:
    value = settings.expression("unsigned_headers")
    if value is None or isinstance(value, syntax.Invalid):
        return frozenset()
    items = value.items if isinstance(value, syntax.ListExpr) else ()
    names = [item.value for item in items if isinstance(item, syntax.Literal) and isinstance(item.value, str)]
    if not names or len(names) != len(items):
        hint = 'write ["x-github-event"]'
        settings.error(value.span, Code.TYPE, "`unsigned_headers` must be a list of headers", hint)
    return frozenset(name.lower() for name in names)


def _message_type(queue: Word | None, settings: BlockReader) -> RecordType:
    if settings.types is None:
        return WEBHOOK_MESSAGE
    record = resolve_record(settings.types.fields, settings.error, top=True)
    if queue is not None:
        hint = "remove it here, and say it in the queue"
        settings.error(settings.types.name.span, Code.MISPLACED, "the queue declares the message type", hint)
    check_webhook_fields(record, settings, settings.types)
    return record


def check_webhook_fields(record: RecordType, settings: BlockReader, types: syntax.TypeBlock | None) -> None:
    """A webhook fills four fields; a message type that needs others would refuse every call."""
    if types is None:
        return
    places = {field.name.text: field for field in types.fields}
    for name, field in record.fields.items():
        if name not in WEBHOOK_MESSAGE.fields:
            if not field.optional:
                hint = did_you_mean(name, tuple(WEBHOOK_MESSAGE.fields), "declare it optional: `name?: type`")
                message = f"no webhook fills the field `{name}`, only {', '.join(WEBHOOK_MESSAGE.fields)}"
                settings.error(places[name].name.span, Code.TYPE, message, hint)
        elif name != "payload" and field.type not in (WEBHOOK_MESSAGE.fields[name].type, _JSON):
            wanted = {"headers": "map<string, string>", "source_ip": "string", "received_at": "time"}[name]
            message = f"a webhook fills `{name}` with another type"
            settings.error(places[name].type.span, Code.TYPE, message, f"write `{name}: {wanted}`")


_JSON = WEBHOOK_MESSAGE.fields["payload"].type


def _target(name: Word, queue: Word | None, message_type: RecordType, settings: BlockReader) -> Any:
    mappings = settings.mappings
    if queue is not None:
        if mappings:
            message = "the queue does the work of this webhook"
            settings.error(mappings[0].span, Code.MISPLACED, message, "move `map_to` into the queue")
        return None
    if not mappings:
        if not settings.has("queue"):
            hint = "write `queue: Name`, or `map_to: command Entity.Name { … }` to run it at once"
            settings.error(name.span, Code.MISSING, f"the webhook `{name.text}` leads nowhere", hint)
        return None
    if len(mappings) > 1:
        message = "without a queue a webhook has one target: the caller waits for its answer"
        settings.error(mappings[1].span, Code.DUPLICATE, message, "put a queue before them")
    if mappings[0].kind.text == TargetKind.QUEUE:
        destination = mappings[0].destination
        shown = destination.text if isinstance(destination, Word) else "Name"
        hint = f"write `queue: {shown}`"
        settings.error(mappings[0].span, Code.TYPE, "a webhook feeds a queue by its setting", hint)
        return None
    if mappings[0].kind.text in (TargetKind.HTTP, TargetKind.LAMBDA):
        message = "without a queue a webhook runs a command: its caller waits, and nothing would retry"
        settings.error(mappings[0].span, Code.TYPE, message, "put a queue before it, or write `map_to: command …`")
        return None
    return compile_target(mappings[0], message_type, settings)


def _verification(name: Word, settings: BlockReader) -> tuple[str | None, dict[str, Any] | None]:
    """The preset, or the settings of a scheme without one. Saying nothing is an error: it would accept anybody."""
    ways = [way for way in ("provider", "verify") if settings.has(way)]
    ways += ["verify_hmac"] if "verify_hmac" in settings.blocks else []
    if len(ways) > 1:
        message = f"`{ways[0]}` and `{ways[1]}` exclude each other"
        settings.error(name.span, Code.DUPLICATE, message, "keep one of them")
    if not ways:
        hint = "write `provider: github`, `verify_hmac { … }`, or `verify: none` to accept anybody"
        settings.error(name.span, Code.MISSING, f"the webhook `{name.text}` does not say how it is verified", hint)
    settings.choice("verify", ("none",), None)
    if "verify_hmac" in settings.blocks:
        return _hmac(settings.block("verify_hmac"), settings.blocks["verify_hmac"][0].kind)
    return _provider(settings), None


def _provider(settings: BlockReader) -> str | None:
    provider = settings.choice("provider", tuple(PRESETS), None)
    if settings.has("tolerance_seconds") and provider is not None and not PRESETS[provider].timed:
        message = f"{provider} signs no time, so none can be too old"
        settings.error(settings.span_of("tolerance_seconds"), Code.TYPE, message, "remove it")
    return provider


def _hmac(settings: BlockReader, place: Word) -> tuple[str | None, dict[str, Any] | None]:
    """The settings of a scheme; or the provider's own, where only a header is named and it is a provider's."""
    if not settings.has("header"):
        hint = 'write `header: "X-Signature"`'
        settings.error(place.span, Code.MISSING, "`verify_hmac` does not name its header", hint)
        return None, None
    given = {
        "header": _header("header", settings),
        "prefix": settings.text("prefix", 100),
        **{name: settings.choice(name, GENERIC[name] or (), None) for name in _WORDS},
        "timestamp_header": _header("timestamp_header", settings),
        "timestamp_prefix": settings.text("timestamp_prefix", 100),
        "timestamp_unit": settings.choice("timestamp_unit", tuple(TimestampFormat), None),
        "tolerance_seconds": _whole_if_given("tolerance_seconds", settings),
        "template": settings.text("template"),
        "id_header": _header("id_header", settings),
        "success_status": _whole_if_given("success_status", settings),
        "overload_status": _whole_if_given("overload_status", settings),
    }
    if given["header"] is None:
        return None, None
    try:
        scheme = scheme_from(given)
    except ConfigurationMissing as exc:
        settings.error(place.span, Code.TYPE, f"nothing could be verified like this: {exc.problem}")
        return None, None
    return (None, given) if scheme.name == "generic" else (scheme.name, None)


def _header(name: str, settings: BlockReader) -> str | None:
    header = settings.text(name, 100)
    if header is not None and _HEADER.fullmatch(header) is None:
        settings.error(settings.span_of(name), Code.TYPE, f"`{name}` is not the name of a header")
        return None
    return header


def _whole_if_given(name: str, settings: BlockReader) -> int | None:
    return settings.whole(name, int(LIMITS[name][0])) if settings.has(name) else None


def _verify_token(settings: BlockReader) -> dict[str, Any] | None:
    text = settings.text("verify_token")
    value = settings.expression("verify_token")
    return None if text is None or value is None else read_secret(text, value.span, settings)


def _public_url(settings: BlockReader) -> str | None:
    url = settings.text("public_url", 2_000)
    if url is not None and not url.startswith("https://"):
        hint = 'write `public_url: "https://…"`'
        settings.error(settings.span_of("public_url"), Code.TYPE, "providers sign an https address", hint)
    elif url is not None and re.search(r"[{}#\s]", url.replace("{tenant}", "")):
        message = "an address holds no spaces, no fragment, and in braces only `{tenant}`"
        settings.error(settings.span_of("public_url"), Code.TYPE, message)
    return url
