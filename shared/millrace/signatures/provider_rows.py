"""Providers with something of their own: a question before they send, several headers, a form of their own."""

from __future__ import annotations

from millrace.signatures.scheme import ChallengeKind, DeliveryFacts, Facts, Form, Layout, Names, Scheme, TimestampFormat

_HOUR = 3_600
_DAY = 24 * _HOUR

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

DETAILED = (
    Scheme(
        "standard_webhooks",
        (_WEBHOOK,),
        layout=Layout.SPACES,
        encoding="base64",
        template="{id}.{timestamp}.{body}",
        tolerance_seconds=300,
        key="standard",
        facts=Facts(
            source="https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md",
            delivery=DeliveryFacts("2xx", restamps=True),
            event_headers=("webhook-id", "webhook-timestamp"),
        ),
    ),
    Scheme(
        "svix",
        (_SVIX, _WEBHOOK),
        layout=Layout.SPACES,
        encoding="base64",
        template="{id}.{timestamp}.{body}",
        tolerance_seconds=300,
        key="standard",
        facts=Facts(
            source="https://docs.svix.com/receiving/verifying-payloads/how-manual",
            delivery=DeliveryFacts(
                "2xx",
                retries=7,
                over_seconds=99_305,
                restamps=True,
                sources=("https://github.com/svix/svix-webhooks/blob/main/server/svix-server/config.default.toml",),
            ),
            event_headers=("svix-id", "svix-timestamp", "webhook-id", "webhook-timestamp"),
        ),
    ),
    Scheme(
        "stripe",
        (Names("stripe-signature"),),
        layout=Layout.STAMPED,
        prefix="v1=",
        template="{timestamp}.{body}",
        tolerance_seconds=300,
        id_field="id",
        facts=Facts(
            source="https://docs.stripe.com/webhooks",
            delivery=DeliveryFacts("2xx", over_seconds=3 * _DAY, restamps=True),
        ),
    ),
    Scheme(
        "github",
        (Names("x-hub-signature-256"),),
        prefix="sha256=",
        id_headers=("x-github-delivery",),
        facts=Facts(
            source="https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries",
            delivery=DeliveryFacts(
                "2xx",
                within_seconds=10,
                retries=0,
                sources=("https://docs.github.com/en/webhooks/using-webhooks/best-practices-for-using-webhooks",),
            ),
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
            source="https://api.slack.com/authentication/verifying-requests-from-slack",
            delivery=DeliveryFacts(
                "2xx",
                within_seconds=3,
                retries=3,
                over_seconds=360,
                restamps=True,
                sources=("https://docs.slack.dev/apis/events-api/",),
            ),
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
        facts=Facts(
            source="https://developer.pagerduty.com/docs/verifying-webhook-signatures",
            delivery=DeliveryFacts(
                "2xx",
                within_seconds=5,
                over_seconds=48 * _HOUR,
                sources=("https://github.com/PagerDuty/developer-docs/blob/main/docs/webhooks/02-Behavior.md",),
            ),
            overload_status=429,
            event_headers=("x-webhook-id",),
        ),
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
            source="https://shopify.dev/docs/apps/build/webhooks/subscribe/https",
            delivery=DeliveryFacts(
                "2xx",
                within_seconds=5,
                retries=8,
                over_seconds=4 * _HOUR,
                sources=("https://shopify.dev/changelog/updates-to-webhook-retry-mechanism",),
            ),
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
        facts=Facts(
            source="https://www.twilio.com/docs/usage/webhooks/webhooks-security",
            success_status=204,
            delivery=DeliveryFacts(within_seconds=15),
            event_headers=("i-twilio-idempotency-token",),
        ),
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
            source="https://developers.zoom.us/docs/api/webhooks/",
            success_status=200,
            delivery=DeliveryFacts(
                "200 204",
                within_seconds=3,
                retries=3,
                over_seconds=5_100,
                sources=("https://developers.zoom.us/blog/webhook-delays",),
            ),
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
            source="https://linear.app/developers/webhooks",
            success_status=200,
            delivery=DeliveryFacts("200", within_seconds=5, retries=3, over_seconds=25_260),
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
            source="https://developer.squareup.com/docs/webhooks/step3validate",
            delivery=DeliveryFacts(
                "2xx",
                within_seconds=10,
                over_seconds=_DAY,
                sources=("https://developer.squareup.com/docs/webhooks/troubleshooting",),
            ),
            event_headers=("square-environment", "square-retry-number", "square-retry-reason"),
        ),
    ),
    Scheme(
        "meta",
        (Names("x-hub-signature-256"),),
        prefix="sha256=",
        challenge=ChallengeKind.META,
        facts=Facts(
            source="https://developers.facebook.com/docs/graph-api/webhooks/getting-started",
            success_status=200,
            delivery=DeliveryFacts("200", over_seconds=36 * _HOUR),
        ),
    ),
    Scheme(
        "x",
        (Names("x-twitter-webhooks-signature"),),
        prefix="sha256=",
        encoding="base64",
        challenge=ChallengeKind.X,
        facts=Facts(
            source="https://developer.x.com/en/docs/x-api/enterprise/account-activity-api/guides/securing-webhooks",
            success_status=200,
            delivery=DeliveryFacts(
                "200",
                within_seconds=10,
                sources=("https://docs.x.com/x-api/webhooks/introduction",),
            ),
        ),
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
            source="https://dev.twitch.tv/docs/eventsub/handling-webhook-events/",
            delivery=DeliveryFacts("2xx", redelivers=True),
            event_headers=(
                "twitch-eventsub-message-id",
                "twitch-eventsub-message-type",
                "twitch-eventsub-message-timestamp",
                "twitch-eventsub-message-retry",
                "twitch-eventsub-subscription-type",
                "twitch-eventsub-subscription-version",
            ),
        ),
    ),
)
