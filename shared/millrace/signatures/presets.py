"""The providers that Millrace knows, one row each, and how a definition becomes a scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millrace.signatures.errors import ConfigurationMissing
from millrace.signatures.scheme import ChallengeKind, Facts, Form, Layout, Names, Scheme, TimestampFormat

#: Tolerance where a definition names a timestamp header and says no more.
DEFAULT_TOLERANCE_SECONDS = 300

_WEBHOOK = Names("webhook-signature", "webhook-timestamp", "webhook-id")
_SVIX = Names("svix-signature", "svix-timestamp", "svix-id")

#: Shopify's topics whose bodies are the same resource, so that two of one action can be the same bytes.
_SHOPIFY_TOPICS = frozenset(
    f"{resource}/{action}"
    for resource, actions in {
        "orders": "create delete updated edited paid cancelled fulfilled partially_fulfilled",
        "draft_orders": "create delete update",
        "products": "create delete update",
        "customers": "create delete update enable disable",
        "checkouts": "create delete update",
        "carts": "create update",
        "collections": "create delete update",
        "fulfillments": "create update",
        "inventory_items": "create delete update",
        "inventory_levels": "connect disconnect update",
        "locations": "create delete update activate deactivate",
        "themes": "create delete update publish",
        "refunds": "create",
        "order_transactions": "create",
        "app": "uninstalled",
        "shop": "update",
    }.items()
    for action in actions.split()
)

_ROWS = (
    Scheme(
        "standard_webhooks",
        (_WEBHOOK,),
        layout=Layout.SPACES,
        encoding="base64",
        template="{id}.{timestamp}.{body}",
        tolerance_seconds=300,
        standard_keys=True,
        facts=Facts(event_headers=("webhook-id", "webhook-timestamp")),
    ),
    Scheme(
        "svix",
        (_SVIX, _WEBHOOK),
        layout=Layout.SPACES,
        encoding="base64",
        template="{id}.{timestamp}.{body}",
        tolerance_seconds=300,
        standard_keys=True,
        facts=Facts(event_headers=("svix-id", "svix-timestamp", "webhook-id", "webhook-timestamp")),
    ),
    Scheme(
        "stripe",
        (Names("stripe-signature"),),
        layout=Layout.STAMPED,
        prefix="v1=",
        template="{timestamp}.{body}",
        tolerance_seconds=300,
        id_field="id",
    ),
    Scheme(
        "github",
        (Names("x-hub-signature-256"),),
        prefix="sha256=",
        id_headers=("x-github-delivery",),
        facts=Facts(
            answer_within_seconds=10,
            redelivers=False,
            event_headers=(
                "x-github-event",
                "x-github-delivery",
                "x-github-hook-id",
                "x-github-hook-installation-target-id",
                "x-github-hook-installation-target-type",
            ),
        ),
    ),
    Scheme(
        "slack",
        (Names("x-slack-signature", "x-slack-request-timestamp"),),
        prefix="v0=",
        template="v0:{timestamp}:{body}",
        tolerance_seconds=300,
        id_field="event_id",
        challenge=ChallengeKind.SLACK,
        facts=Facts(
            answer_within_seconds=3,
            # What a slash command or a button is answered, its user reads.
            empty_answer_to_forms=True,
            event_headers=("x-slack-request-timestamp", "x-slack-retry-num", "x-slack-retry-reason"),
        ),
    ),
    Scheme(
        "pagerduty",
        (Names("x-pagerduty-signature"),),
        layout=Layout.COMMAS,
        prefix="v1=",
        id_field="event.id",
        facts=Facts(overload_status=429, answer_within_seconds=5, event_headers=("x-webhook-id",)),
    ),
    Scheme(
        "shopify",
        (Names("x-shopify-hmac-sha256"), Names("shopify-hmac-sha256")),
        encoding="base64",
        id_headers=("x-shopify-event-id",),
        # One action of a merchant sends several topics, often with the same body.
        kind_headers=("x-shopify-topic", "shopify-topic"),
        kinds=_SHOPIFY_TOPICS,
        facts=Facts(
            answer_within_seconds=5,
            event_headers=tuple(
                f"{prefix}shopify-{name}"
                for prefix in ("x-", "")
                for name in ("topic", "event-id", "webhook-id", "shop-domain", "api-version", "triggered-at")
            ),
        ),
    ),
    Scheme(
        "twilio",
        (Names("x-twilio-signature"),),
        algorithm="sha1",
        encoding="base64",
        template="{url}",
        form=Form.TWILIO,
        id_headers=("i-twilio-idempotency-token",),
        # Twilio reads the body of an answer as TwiML; an empty one says "nothing to do".
        facts=Facts(success_status=204, answer_within_seconds=15, event_headers=("i-twilio-idempotency-token",)),
    ),
    Scheme(
        "zoom",
        (Names("x-zm-signature", "x-zm-request-timestamp"),),
        prefix="v0=",
        template="v0:{timestamp}:{body}",
        # Retries carry the first time: 5, 20 and 60 minutes after each other.
        tolerance_seconds=7_200,
        challenge=ChallengeKind.ZOOM,
        facts=Facts(
            success_status=200,
            answer_within_seconds=3,
            retries_within_seconds=5_100,
            event_headers=("x-zm-request-timestamp", "x-zm-trackingid"),
        ),
    ),
    Scheme(
        "linear",
        (Names("linear-signature"),),
        clock=TimestampFormat.MILLISECONDS,
        timestamp_field="webhookTimestamp",
        # Retries carry the first time: 1 minute, 1 hour and 6 hours after each other.
        tolerance_seconds=28_800,
        id_headers=("linear-delivery",),
        facts=Facts(
            success_status=200,
            answer_within_seconds=5,
            retries_within_seconds=25_260,
            event_headers=("linear-delivery", "linear-event"),
        ),
    ),
    Scheme(
        "square",
        (Names("x-square-hmacsha256-signature"),),
        encoding="base64",
        template="{url}{body}",
        id_field="event_id",
        facts=Facts(
            answer_within_seconds=10,
            event_headers=("square-environment", "square-retry-number", "square-retry-reason"),
        ),
    ),
    Scheme(
        "meta",
        (Names("x-hub-signature-256"),),
        prefix="sha256=",
        challenge=ChallengeKind.META,
        facts=Facts(success_status=200),
    ),
    Scheme(
        "x",
        (Names("x-twitter-webhooks-signature"),),
        prefix="sha256=",
        encoding="base64",
        challenge=ChallengeKind.X,
        facts=Facts(success_status=200),
    ),
    Scheme(
        "twitch",
        (
            Names(
                "twitch-eventsub-message-signature",
                "twitch-eventsub-message-timestamp",
                "twitch-eventsub-message-id",
            ),
        ),
        prefix="sha256=",
        template="{id}{timestamp}{body}",
        clock=TimestampFormat.RFC3339,
        tolerance_seconds=600,
        challenge=ChallengeKind.TWITCH,
        facts=Facts(
            event_headers=(
                "twitch-eventsub-message-id",
                "twitch-eventsub-message-type",
                "twitch-eventsub-message-timestamp",
                "twitch-eventsub-message-retry",
                "twitch-eventsub-subscription-type",
                "twitch-eventsub-subscription-version",
            )
        ),
    ),
)

#: Headers that several providers sign in, each in its own way.
_ANYBODYS = frozenset({"webhook-signature"})

PRESETS: Mapping[str, Scheme] = {row.name: row for row in _ROWS}

#: What a definition may say beyond the header, and where only some words will do, which.
_GENERIC: Mapping[str, tuple[str, ...] | None] = {
    "prefix": None,
    "algorithm": ("sha256", "sha1", "sha512"),
    "encoding": ("hex", "hex_upper", "base64"),
    "separator": ("", ","),
    "timestamp_header": None,
    "timestamp_unit": tuple(TimestampFormat),
    "template": None,
    "tolerance_seconds": None,
    "id_header": None,
    "success_status": None,
    "overload_status": None,
}


def preset(name: str) -> Scheme:
    """The scheme of a provider. Raises ConfigurationMissing for a name that is not in the table."""
    if name not in PRESETS:
        raise ConfigurationMissing(f"no provider {name!r}; known are {', '.join(sorted(PRESETS))}")
    return PRESETS[name]


def for_header(header: str) -> Scheme | None:
    """The provider that signs in this header, where its name alone says whose it is: that of GitHub is Meta's too,
    signed the same way; `Webhook-Signature` is anybody's.
    """
    if header.lower() in _ANYBODYS:
        return None
    return next((row for row in _ROWS if any(n.signature == header.lower() for n in row.names)), None)


def generic(header: str, **settings: Any) -> Scheme:
    """A scheme from a definition's `verify_hmac`.

    `settings`: prefix, algorithm, encoding, separator (`,` for several signatures in one header), timestamp_header,
    timestamp_unit, template, tolerance_seconds, id_header, success_status, overload_status. Only what is given
    differs from `hex HMAC-SHA256 of the body`. Raises ConfigurationMissing for anything that could not verify.
    """
    _check_generic(header, settings)
    stamp, name = settings.get("timestamp_header") or "", settings.get("id_header") or ""
    return Scheme(
        "generic",
        (Names(header.lower(), stamp.lower(), name.lower()),),
        layout=Layout.COMMAS if settings.get("separator") else Layout.SINGLE,
        prefix=settings.get("prefix") or "",
        algorithm=settings.get("algorithm", "sha256"),
        encoding=settings.get("encoding", "hex"),
        template=settings.get("template") or ("{timestamp}.{body}" if stamp else "{body}"),
        clock=TimestampFormat(settings.get("timestamp_unit", "seconds")),
        tolerance_seconds=settings.get("tolerance_seconds", DEFAULT_TOLERANCE_SECONDS) if stamp else None,
        id_headers=(name.lower(),) if name else (),
        facts=Facts(settings.get("success_status", 202), settings.get("overload_status", 503)),
    )


def _check_generic(header: str, settings: Mapping[str, Any]) -> None:
    wrong = [f"{key} is no setting" for key in settings if key not in _GENERIC]
    wrong += [
        f"{key} is one of {', '.join(map(repr, words))}"
        for key, words in _GENERIC.items()
        if words and key in settings and settings[key] not in words
    ]
    if not settings.get("timestamp_header") and {"tolerance_seconds", "timestamp_unit"} & set(settings):
        wrong.append("a tolerance or unit needs a timestamp_header")
    if not header:
        wrong.append("a header is needed")
    if wrong:
        raise ConfigurationMissing(f"verify_hmac on {header!r}: {'; '.join(wrong)}")


def scheme_from(settings: Mapping[str, Any]) -> Scheme:
    """The scheme of a compiled webhook definition.

    `{"provider": "github"}` is a row of the table (its tolerance_seconds may be set); `{"header": …}` alone is the
    provider that signs in that header, where there is one; anything more is `generic`.
    """
    given = {key: value for key, value in settings.items() if value is not None}
    provider = given.pop("provider", None)
    if provider is None:
        known = for_header(given.get("header", "")) if set(given) <= {"header"} else None
        return known or generic(given.pop("header", ""), **given)
    row = preset(provider)
    if set(given) - {"tolerance_seconds"} or (given and not row.timed):
        raise ConfigurationMissing(f"provider {provider!r} takes no {', '.join(sorted(given))}")
    return replace(row, **given)
