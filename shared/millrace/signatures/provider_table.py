"""Providers that a line tells: the header, what is signed, how it is written, and where the provider says so.

`success_status` is named where a provider asks for a certain one. Nothing is said of time-outs and retries unless the
source tells it.
"""

from __future__ import annotations

from typing import Any

from millrace.signatures.scheme import (
    ChallengeKind,
    Facts,
    Form,
    Layout,
    Names,
    Scheme,
    SignaturePlace,
    TimestampFormat,
)

_MS = TimestampFormat.MILLISECONDS


def _facts(source: str, success: int = 202, within: float | None = None, keep: str = "") -> Facts:
    headers = tuple(keep.split())
    return Facts(success, answer_within_seconds=within, redelivers=None, event_headers=headers, source=source)


def _hmac(name: str, header: str, source: str, prefix: str = "", *, facts: Any = None, **more: Any) -> Scheme:
    """Hex HMAC-SHA256 of the body, unless `more` says otherwise."""
    return Scheme(name, (Names(header),), prefix=prefix, facts=facts or _facts(f"https://{source}"), **more)


def _base64(name: str, header: str, source: str, prefix: str = "", **more: Any) -> Scheme:
    return _hmac(name, header, source, prefix, encoding="base64", **more)


def _dated(name: str, headers: str, source: str, template: str, *, facts: Any = None, **more: Any) -> Scheme:
    """A time in a header of its own, signed with the body."""
    signature, stamp = headers.split()
    given = {"tolerance_seconds": 300, **more}
    return Scheme(
        name, (Names(signature, stamp),), template=template, facts=facts or _facts(f"https://{source}"), **given
    )


def _stamped(
    name: str, header: str, source: str, marks: str = "t= v1=", within: float | None = None, **more: Any
) -> Scheme:
    """A time and signatures in one header, as Stripe writes them, with the provider's own marks."""
    stamp, prefix = marks.split()
    given = {"template": "{timestamp}.{body}", "tolerance_seconds": 300, **more}
    facts = _facts(f"https://{source}", within=within)
    return Scheme(
        name, (Names(header),), layout=Layout.STAMPED, stamp_prefix=stamp, prefix=prefix, facts=facts, **given
    )


def _standard(name: str, family: str, source: str) -> Scheme:
    """Standard Webhooks under the names of `webhook` or `svix`."""
    names = (Names(*(f"{family}-{part}" for part in ("signature", "timestamp", "id"))),)
    kept = f"{family}-id {family}-timestamp"
    return Scheme(
        name,
        names,
        layout=Layout.SPACES,
        encoding="base64",
        template="{id}.{timestamp}.{body}",
        tolerance_seconds=300,
        key="standard",
        facts=_facts(f"https://{source}", keep=kept),
    )


def _token(name: str, header: str, source: str, prefix: str = "", **more: Any) -> Scheme:
    """The secret itself in a header: whoever sees one delivery can send anything."""
    given = {"encoding": "plain", "facts": _facts(f"https://{source}"), **more}
    return Scheme(name, (Names(header),), prefix=prefix, algorithm="token", **given)


def _basic(name: str, source: str, **more: Any) -> Scheme:
    """`user:password` as HTTP's basic authentication."""
    return _token(name, "authorization", source, "Basic ", encoding="base64", **more)


PLAIN = (
    # The body in hex.
    _hmac("alchemy", "x-alchemy-signature", "www.alchemy.com/docs/reference/notify-api-quickstart", id_field="id"),
    _hmac("btcpay", "btcpay-sig", "docs.btcpayserver.org/API/Greenfield/v1/", "sha256=", id_field="deliveryId"),
    _hmac("bitbucket", "x-hub-signature", "support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/", "sha256=", facts=_facts("https://support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/", keep="x-event-key x-hook-uuid x-request-uuid")),
    _hmac("cal_com", "x-cal-signature-256", "cal.com/docs/developing/guides/automation/webhooks"),
    _hmac("chargify", "x-chargify-webhook-signature-hmac-sha-256", "docs.maxio.com/hc/en-us/articles/24266143173901-Webhooks-Reference"),
    _hmac("checkout_com", "cko-signature", "www.checkout.com/docs/developer-resources/webhooks/manage-webhooks", id_field="id"),
    _hmac("checkr", "x-checkr-signature", "docs.checkr.com/#section/Webhooks", id_field="id"),
    _hmac("circleci", "circleci-signature", "circleci.com/docs/webhooks/", "v1=", layout=Layout.COMMAS, id_field="id"),
    _hmac("clickup", "x-signature", "developer.clickup.com/docs/webhooksignature"),
    _hmac("coinbase_commerce", "x-cc-webhook-signature", "docs.cdp.coinbase.com/commerce/docs/webhooks-security", id_field="event.id"),
    _hmac("discourse", "x-discourse-event-signature", "meta.discourse.org/t/configure-webhooks-that-trigger-on-discourse-events/49045", "sha256=", facts=_facts("https://meta.discourse.org/t/configure-webhooks-that-trigger-on-discourse-events/49045", keep="x-discourse-event x-discourse-event-type x-discourse-event-id x-discourse-instance")),
    _hmac("dropbox", "x-dropbox-signature", "www.dropbox.com/developers/reference/webhooks", challenge=ChallengeKind.ECHO, facts=_facts("https://www.dropbox.com/developers/reference/webhooks", within=10)),
    _hmac("dwolla", "x-request-signature-sha-256", "developers.dwolla.com/docs/working-with-webhooks", id_field="id"),
    _hmac("easypost", "x-hmac-signature", "docs.easypost.com/guides/webhooks-guide", "hmac-sha256-hex=", id_field="id"),
    _hmac("gitea", "x-gitea-signature", "docs.gitea.com/usage/webhooks", id_headers=("x-gitea-delivery",), facts=_facts("https://docs.gitea.com/usage/webhooks", keep="x-gitea-event x-gitea-delivery")),
    _hmac("gocardless", "webhook-signature", "developer.gocardless.com/api-reference/#webhooks-signing-webhooks"),
    _hmac("gogs", "x-gogs-signature", "gogs.io/docs/features/webhook", id_headers=("x-gogs-delivery",), facts=_facts("https://gogs.io/docs/features/webhook", keep="x-gogs-event x-gogs-delivery")),
    _hmac("intercom", "x-hub-signature", "developers.intercom.com/docs/webhooks/setting-up-webhooks", "sha1=", algorithm="sha1", id_field="id"),
    _hmac("jira", "x-hub-signature", "developer.atlassian.com/cloud/jira/platform/webhooks/", "sha256=", facts=_facts("https://developer.atlassian.com/cloud/jira/platform/webhooks/", keep="x-atlassian-webhook-identifier")),
    _hmac("launchdarkly", "x-ld-signature", "launchdarkly.com/docs/home/connecting/webhooks", id_field="_id"),
    _hmac("lemon_squeezy", "x-signature", "docs.lemonsqueezy.com/help/webhooks/signing-requests", facts=_facts("https://docs.lemonsqueezy.com/help/webhooks/signing-requests", 200, keep="x-event-name")),
    _hmac("modern_treasury", "x-signature", "docs.moderntreasury.com/platform/reference/verifying-webhooks"),
    _hmac("notion", "x-notion-signature", "developers.notion.com/reference/webhooks", "sha256=", id_field="id"),
    _hmac("nylas", "x-nylas-signature", "developer.nylas.com/docs/v3/notifications/", challenge=ChallengeKind.ECHO, id_field="id", facts=_facts("https://developer.nylas.com/docs/v3/notifications/", 200, 10)),
    _hmac("onfido", "x-sha2-signature", "documentation.onfido.com/#webhooks"),
    _hmac("patreon", "x-patreon-signature", "docs.patreon.com/#webhooks", algorithm="md5", facts=_facts("https://docs.patreon.com/#webhooks", keep="x-patreon-event")),
    _hmac("paystack", "x-paystack-signature", "paystack.com/docs/payments/webhooks/", algorithm="sha512", facts=_facts("https://paystack.com/docs/payments/webhooks/", 200)),
    _hmac("pusher", "x-pusher-signature", "pusher.com/docs/channels/server_api/webhooks/"),
    _hmac("razorpay", "x-razorpay-signature", "razorpay.com/docs/webhooks/validate-test/", id_headers=("x-razorpay-event-id",), facts=_facts("https://razorpay.com/docs/webhooks/validate-test/", keep="x-razorpay-event-id")),
    _hmac("segment", "x-signature", "segment.com/docs/connections/destinations/catalog/webhooks/", algorithm="sha1", id_field="messageId"),
    _hmac("sentry", "sentry-hook-signature", "docs.sentry.io/organization/integrations/integration-platform/webhooks/", facts=_facts("https://docs.sentry.io/organization/integrations/integration-platform/webhooks/", within=1, keep="sentry-hook-resource sentry-hook-timestamp request-id")),
    _hmac("snyk", "x-hub-signature", "docs.snyk.io/snyk-api/using-specific-snyk-apis/webhooks-apis", "sha256=", facts=_facts("https://docs.snyk.io/snyk-api/using-specific-snyk-apis/webhooks-apis", keep="x-snyk-event x-snyk-transport-id x-snyk-timestamp")),
    _hmac("sonarqube", "x-sonar-webhook-hmac-sha256", "docs.sonarsource.com/sonarqube-server/latest/project-administration/webhooks/"),
    _hmac("squarespace", "squarespace-signature", "developers.squarespace.com/commerce-apis/webhook-subscriptions-overview", key="hex", id_field="id"),
    _hmac("terraform_cloud", "x-tfe-notification-signature", "developer.hashicorp.com/terraform/cloud-docs/api-docs/notification-configurations", algorithm="sha512"),
    _hmac("vercel", "x-vercel-signature", "vercel.com/docs/webhooks/webhooks-api", algorithm="sha1", id_field="id"),
    _hmac("viber", "x-viber-content-signature", "developers.viber.com/docs/api/rest-bot-api/"),
    # The body in base64.
    _base64("aftership", "aftership-hmac-sha256", "www.aftership.com/docs/tracking/webhook/webhook-overview"),
    _base64("docusign", "x-docusign-signature-1", "developers.docusign.com/platform/webhooks/connect/hmac/", layout=Layout.NUMBERED),
    _base64("fastspring", "x-fs-signature", "developer.fastspring.com/docs/webhooks-overview"),
    _base64("help_scout", "x-helpscout-signature", "developer.helpscout.com/webhooks/", algorithm="sha1", facts=_facts("https://developer.helpscout.com/webhooks/", keep="x-helpscout-event")),
    _base64("heroku", "heroku-webhook-hmac-sha256", "devcenter.heroku.com/articles/app-webhooks", id_field="id"),
    _base64("line", "x-line-signature", "developers.line.biz/en/docs/messaging-api/receiving-messages/", facts=_facts("https://developers.line.biz/en/docs/messaging-api/receiving-messages/", 200)),
    _base64("quickbooks", "intuit-signature", "developer.intuit.com/app/developer/qbo/docs/develop/webhooks"),
    _base64("todoist", "x-todoist-hmac-sha256", "developer.todoist.com/sync/v9/#webhooks", id_headers=("x-todoist-delivery-id",), facts=_facts("https://developer.todoist.com/sync/v9/#webhooks", 200, keep="x-todoist-delivery-id")),
    _base64("trello", "x-trello-webhook", "developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/", algorithm="sha1", template="{body}{url}", challenge=ChallengeKind.HEAD, id_field="action.id", facts=_facts("https://developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/", 200)),
    _base64("typeform", "typeform-signature", "www.typeform.com/developers/webhooks/secure-your-webhooks/", "sha256=", id_field="event_id"),
    _base64("woocommerce", "x-wc-webhook-signature", "woocommerce.github.io/woocommerce-rest-api-docs/#webhooks", id_headers=("x-wc-webhook-delivery-id",), challenge=ChallengeKind.PING, facts=_facts("https://woocommerce.github.io/woocommerce-rest-api-docs/#webhooks", keep="x-wc-webhook-topic x-wc-webhook-resource x-wc-webhook-event x-wc-webhook-delivery-id")),
    _base64("xero", "x-xero-signature", "developer.xero.com/documentation/guides/webhooks/configuring-your-server/", facts=_facts("https://developer.xero.com/documentation/guides/webhooks/configuring-your-server/", 200, 5)),
    # A key that is not its text.
    _hmac("airtable", "x-airtable-content-mac", "airtable.com/developers/web/api/webhooks-overview", "hmac-sha256=", key="base64"),
    # A time in a header of its own.
    _dated("box", "box-signature-primary box-delivery-timestamp", "developer.box.com/guides/webhooks/v2/signatures-v2/", "{body}{timestamp}", encoding="base64", clock=TimestampFormat.RFC3339, tolerance_seconds=600, id_field="id", escapes=True),
    _dated("customer_io", "x-cio-signature x-cio-timestamp", "docs.customer.io/journeys/webhooks/", "v0:{timestamp}:{body}", id_field="event_id"),
    _dated("hubspot", "x-hubspot-signature-v3 x-hubspot-request-timestamp", "developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests", "POST{url}{body}{timestamp}", encoding="base64", clock=_MS),
    _dated("webflow", "x-webflow-signature x-webflow-timestamp", "developers.webflow.com/data/docs/working-with-webhooks", "{timestamp}:{body}", clock=_MS),
    _dated("whoop", "x-whoop-signature x-whoop-signature-timestamp", "developer.whoop.com/docs/developing/webhooks/", "{timestamp}{body}", encoding="base64", clock=_MS, facts=_facts("https://developer.whoop.com/docs/developing/webhooks/", within=1)),
    _dated("zendesk", "x-zendesk-webhook-signature x-zendesk-webhook-signature-timestamp", "developer.zendesk.com/documentation/webhooks/verifying/", "{timestamp}{body}", encoding="base64", clock=TimestampFormat.RFC3339),
    # A key pair.
    _dated("discord", "x-signature-ed25519 x-signature-timestamp", "docs.discord.com/developers/events/webhook-events", "{timestamp}{body}", algorithm="ed25519", key="hex", facts=_facts("https://docs.discord.com/developers/events/webhook-events", 204, 3)),
    _dated("sendgrid", "x-twilio-email-event-webhook-signature x-twilio-email-event-webhook-timestamp", "www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features", "{timestamp}{body}", algorithm="ecdsa", encoding="base64", key="base64"),
    _dated("telnyx", "telnyx-signature-ed25519 telnyx-timestamp", "developers.telnyx.com/docs/messaging/messages/receiving-webhooks", "{timestamp}|{body}", algorithm="ed25519", encoding="base64", key="base64", id_field="data.id"),
    # A time and signatures in one header.
    _stamped("buildkite", "x-buildkite-signature", "buildkite.com/docs/apis/webhooks", "timestamp= signature="),
    _stamped("calendly", "calendly-webhook-signature", "developer.calendly.com/api-docs/4c305798a61d3-webhook-signatures"),
    _stamped("cloudflare_stream", "webhook-signature", "developers.cloudflare.com/stream/manage-video-library/using-webhooks/", "time= sig1="),
    _stamped("elevenlabs", "elevenlabs-signature", "elevenlabs.io/docs/product-guides/administration/webhooks", "t= v0=", tolerance_seconds=1_800),
    _stamped("ghost", "x-ghost-signature", "docs.ghost.org/webhooks", "t= sha256=", within=2, template="{body}{timestamp}", clock=_MS),
    _stamped("mux", "mux-signature", "www.mux.com/docs/core/verify-webhook-signatures", id_field="id"),
    _stamped("paddle", "paddle-signature", "developer.paddle.com/webhooks/signature-verification", "ts= h1=", separator=";", template="{timestamp}:{body}", id_field="event_id"),
    _stamped("persona", "persona-signature", "docs.withpersona.com/webhooks-best-practices", id_field="data.id"),
    _stamped("sanity", "sanity-webhook-signature", "www.sanity.io/docs/webhooks", encoding="base64url", clock=_MS, tolerance_seconds=7_200),  # its library checks no age
    _stamped("tiktok", "tiktok-signature", "developers.tiktok.com/doc/webhooks-verification", "t= s="),
    _stamped("workos", "workos-signature", "workos.com/docs/events/data-syncing/webhooks", clock=_MS, id_field="id"),
    # Standard Webhooks under a provider's own name.
    _standard("brex", "webhook", "developer.brex.com/docs/webhooks/"),
    _standard("clerk", "svix", "clerk.com/docs/webhooks/sync-data"),
    _standard("incident_io", "webhook", "api-docs.incident.io/tag/Webhooks"),
    _standard("openai", "webhook", "platform.openai.com/docs/guides/webhooks"),
    _standard("render", "webhook", "render.com/docs/webhooks"),
    _standard("replicate", "webhook", "replicate.com/docs/topics/webhooks/verify-webhook"),
    _standard("resend", "svix", "resend.com/docs/dashboard/webhooks/verify-webhooks-requests"),
    # The secret itself.
    _token("azure_event_grid", "token", "learn.microsoft.com/azure/event-grid/end-point-validation-event-grid-events-schema", place=SignaturePlace.QUERY, challenge=ChallengeKind.EVENT_GRID),
    _token("microsoft_graph", "value.*.clientState", "learn.microsoft.com/graph/change-notifications-delivery-webhooks", place=SignaturePlace.BODY, challenge=ChallengeKind.GRAPH, facts=_facts("https://learn.microsoft.com/graph/change-notifications-delivery-webhooks", within=10)),
    _basic("chargebee", "www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings", id_field="id"),
    _token("cloudflare_notifications", "cf-webhook-auth", "developers.cloudflare.com/notifications/get-started/configure-webhooks/"),
    _token("flutterwave", "verif-hash", "developer.flutterwave.com/docs/integration-guides/webhooks/"),
    _token("gitlab", "x-gitlab-token", "docs.gitlab.com/user/project/integrations/webhooks/"),
    _basic("postmark", "postmarkapp.com/developer/webhooks/webhooks-overview"),
    _token("revenuecat", "authorization", "www.revenuecat.com/docs/integrations/webhooks", id_field="event.id"),
    _token("telegram", "x-telegram-bot-api-secret-token", "core.telegram.org/bots/api#setwebhook", id_field="update_id"),
    # A signature in the query or in the body.
    _hmac("pandadoc", "signature", "developers.pandadoc.com/docs/webhooks-verification", place=SignaturePlace.QUERY),
    Scheme(
        "mailgun",
        (Names("signature.signature", "signature.timestamp", "signature.token"),),
        place=SignaturePlace.BODY,
        template="{timestamp}{id}",
        tolerance_seconds=36_000,  # its retries take 8 hours
        partial=True,
        facts=_facts("https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks", 200),
    ),
    Scheme(
        "adyen",
        (Names("notificationItems.0.NotificationRequestItem.additionalData.hmacSignature"),),
        place=SignaturePlace.BODY,
        form=Form.ADYEN,
        encoding="base64",
        key="hex",
        partial=True,
        facts=_facts("https://docs.adyen.com/development-resources/webhooks/verify-hmac-signatures", 200),
    ),
)  # fmt: skip
