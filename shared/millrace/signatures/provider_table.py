"""Providers that a line tells: the header, what is signed, how it is written, and what its maker says.

Nothing is said of deliveries unless a source tells it. 202 is answered only where it is known to be taken; 200 is taken
by everybody who takes any body.
"""

from __future__ import annotations

from typing import Any

from millrace.signatures.scheme import (
    ChallengeKind,
    DeliveryFacts,
    Facts,
    Form,
    Layout,
    Names,
    Scheme,
    SignaturePlace,
    TimestampFormat,
)

_MS = TimestampFormat.MILLISECONDS
_HOUR = 3_600
_DAY = 24 * _HOUR
_NOT_TOLD = DeliveryFacts()
#: Svix retries after 5 s, 5 min, 30 min, 2, 5, 10 and 10 hours.
_SVIX_SECONDS = 99_305


def _told(accepts: str, *sources: str, **more: Any) -> DeliveryFacts:
    """What a maker says of its deliveries."""
    return DeliveryFacts(accepts, sources=tuple(f"https://{source}" for source in sources), **more)


def _facts(source: str, keep: str = "", told: DeliveryFacts = _NOT_TOLD, answer: int | None = None) -> Facts:
    status = answer or (202 if told.takes(202) else 200)
    return Facts(status, event_headers=tuple(keep.split()), source=f"https://{source}", delivery=told)


def _row(
    name: str,
    names: Names,
    source: str,
    *,
    keep: str = "",
    told: DeliveryFacts = _NOT_TOLD,
    answer: int | None = None,
    **more: Any,
) -> Scheme:
    return Scheme(name, (names,), facts=_facts(source, keep, told, answer), **more)


def _hmac(name: str, header: str, source: str, prefix: str = "", **more: Any) -> Scheme:
    """Hex HMAC-SHA256 of the body, unless `more` says otherwise."""
    return _row(name, Names(header), source, prefix=prefix, **more)


def _base64(name: str, header: str, source: str, prefix: str = "", **more: Any) -> Scheme:
    return _hmac(name, header, source, prefix, encoding="base64", **more)


def _dated(name: str, headers: str, source: str, template: str, **more: Any) -> Scheme:
    """A time in a header of its own, signed with the body."""
    given = {"tolerance_seconds": 300, **more}
    return _row(name, Names(*headers.split()), source, template=template, **given)


def _stamped(name: str, header: str, source: str, marks: str = "t= v1=", **more: Any) -> Scheme:
    """A time and signatures in one header, as Stripe writes them, with the provider's own marks."""
    stamp, prefix = marks.split()
    given = {"template": "{timestamp}.{body}", "tolerance_seconds": 300, **more}
    return _hmac(name, header, source, prefix, stamp_prefix=stamp, **{"layout": Layout.STAMPED, **given})


def _standard(name: str, family: str, source: str, told: DeliveryFacts | None = None) -> Scheme:
    """Standard Webhooks under the names of `webhook` or `svix`: each attempt is signed anew."""
    return _row(
        name,
        Names(*(f"{family}-{part}" for part in ("signature", "timestamp", "id"))),
        source,
        layout=Layout.SPACES,
        encoding="base64",
        template="{id}.{timestamp}.{body}",
        tolerance_seconds=300,
        key="standard",
        keep=f"{family}-id {family}-timestamp",
        told=told or DeliveryFacts(restamps=True),
    )


def _token(name: str, header: str, source: str, prefix: str = "", **more: Any) -> Scheme:
    """The secret itself in a header: whoever sees one delivery can send anything."""
    return _hmac(name, header, source, prefix, algorithm="token", **{"encoding": "plain", **more})


def _basic(name: str, source: str, **more: Any) -> Scheme:
    """`user:password` as HTTP's basic authentication."""
    return _token(name, "authorization", source, "Basic ", encoding="base64", **more)


PLAIN = (
    # The body in hex.
    _hmac("alchemy", "x-alchemy-signature", "www.alchemy.com/docs/reference/notify-api-quickstart", id_field="id", told=_told("200", "www.alchemy.com/docs/reference/notify-api-faq", within_seconds=5, retries=3, over_seconds=675)),
    _hmac("btcpay", "btcpay-sig", "docs.btcpayserver.org/API/Greenfield/v1/", "sha256=", id_field="deliveryId", told=_told("2xx", retries=8, over_seconds=3_670)),
    _hmac("bitbucket", "x-hub-signature", "support.atlassian.com/bitbucket-cloud/docs/manage-webhooks/", "sha256=", keep="x-event-key x-hook-uuid x-request-uuid"),
    _hmac("cal_com", "x-cal-signature-256", "cal.com/docs/developing/guides/automation/webhooks"),
    _hmac("chargify", "x-chargify-webhook-signature-hmac-sha-256", "docs.maxio.com/hc/en-us/articles/24266143173901-Webhooks-Reference"),
    _hmac("checkout_com", "cko-signature", "www.checkout.com/docs/developer-resources/webhooks/manage-webhooks", id_field="id"),
    _hmac("checkr", "x-checkr-signature", "docs.checkr.com/#section/Webhooks", id_field="id"),
    _hmac("circleci", "circleci-signature", "circleci.com/docs/webhooks/", "v1=", layout=Layout.COMMAS, id_field="id", told=_told("2xx", "circleci.com/docs/guides/integration/outbound-webhooks/", within_seconds=10, redelivers=True)),
    _hmac("clickup", "x-signature", "developer.clickup.com/docs/webhooksignature"),
    _hmac("coinbase_commerce", "x-cc-webhook-signature", "docs.cdp.coinbase.com/commerce/docs/webhooks-security", id_field="event.id", told=_told("200", "docs.cdp.coinbase.com/commerce/api-arcitecture/webhooks-overview", over_seconds=3 * _DAY)),
    _hmac("discourse", "x-discourse-event-signature", "meta.discourse.org/t/configure-webhooks-that-trigger-on-discourse-events/49045", "sha256=", keep="x-discourse-event x-discourse-event-type x-discourse-event-id x-discourse-instance", told=_told("2xx", "github.com/discourse/discourse/blob/main/app/jobs/regular/emit_web_hook_event.rb", within_seconds=20, retries=0)),
    _hmac("dropbox", "x-dropbox-signature", "www.dropbox.com/developers/reference/webhooks", challenge=ChallengeKind.ECHO, told=_told("", within_seconds=10)),
    _hmac("dwolla", "x-request-signature-sha-256", "developers.dwolla.com/docs/working-with-webhooks", id_field="id"),
    _hmac("easypost", "x-hmac-signature", "docs.easypost.com/guides/webhooks-guide", "hmac-sha256-hex=", id_field="id", told=_told("2xx", redelivers=True)),
    _hmac("gitea", "x-gitea-signature", "docs.gitea.com/usage/webhooks", id_headers=("x-gitea-delivery",), keep="x-gitea-event x-gitea-delivery", told=_told("2xx", "github.com/go-gitea/gitea/blob/main/services/webhook/deliver.go", within_seconds=5, retries=0)),
    _hmac("gocardless", "webhook-signature", "developer.gocardless.com/api-reference/#webhooks-signing-webhooks"),
    _hmac("gogs", "x-gogs-signature", "gogs.io/docs/features/webhook", id_headers=("x-gogs-delivery",), keep="x-gogs-event x-gogs-delivery", told=_told("2xx", "github.com/gogs/gogs/blob/main/internal/database/webhook.go", within_seconds=15, retries=0)),
    _hmac("intercom", "x-hub-signature", "developers.intercom.com/docs/webhooks/setting-up-webhooks", "sha1=", algorithm="sha1", id_field="id"),
    _hmac("jira", "x-hub-signature", "developer.atlassian.com/cloud/jira/platform/webhooks/", "sha256=", keep="x-atlassian-webhook-identifier", told=_told("200 204", "developer.atlassian.com/platform/marketplace/cloud-fortified-apps-program-webhook-delivery-success-rate", redelivers=True)),
    _hmac("launchdarkly", "x-ld-signature", "launchdarkly.com/docs/home/connecting/webhooks", id_field="_id"),
    _hmac("lemon_squeezy", "x-signature", "docs.lemonsqueezy.com/help/webhooks/signing-requests", keep="x-event-name", told=_told("200", "docs.lemonsqueezy.com/help/webhooks/webhook-requests", retries=3, over_seconds=155)),
    _hmac("modern_treasury", "x-signature", "docs.moderntreasury.com/platform/reference/verifying-webhooks"),
    _hmac("notion", "x-notion-signature", "developers.notion.com/reference/webhooks", "sha256=", id_field="id"),
    _hmac("nylas", "x-nylas-signature", "developer.nylas.com/docs/v3/notifications/", challenge=ChallengeKind.ECHO, id_field="id", told=_told("200", "developer.nylas.com/docs/cookbook/use-cases/build/retry-failed-webhooks/", within_seconds=10, redelivers=True)),
    _hmac("onfido", "x-sha2-signature", "documentation.onfido.com/#webhooks"),
    _hmac("patreon", "x-patreon-signature", "docs.patreon.com/#webhooks", algorithm="md5", keep="x-patreon-event", told=_told("", retries=7, over_seconds=604 * _HOUR)),
    _hmac("paystack", "x-paystack-signature", "paystack.com/docs/payments/webhooks/", algorithm="sha512", told=_told("200", over_seconds=72 * _HOUR)),
    _hmac("pusher", "x-pusher-signature", "pusher.com/docs/channels/server_api/webhooks/", told=_told("2xx", "docs.bird.com/pusher/channels/channels/webhooks/channels-webhook-timeouts-and-retries", within_seconds=4, over_seconds=300)),
    _hmac("razorpay", "x-razorpay-signature", "razorpay.com/docs/webhooks/validate-test/", id_headers=("x-razorpay-event-id",), keep="x-razorpay-event-id", told=_told("2xx", "razorpay.com/docs/webhooks/best-practices/", within_seconds=5, over_seconds=_DAY)),
    _hmac("segment", "x-signature", "segment.com/docs/connections/destinations/catalog/webhooks/", algorithm="sha1", id_field="messageId", told=_told("", within_seconds=5, over_seconds=4 * _HOUR)),
    _hmac("sentry", "sentry-hook-signature", "docs.sentry.io/organization/integrations/integration-platform/webhooks/", keep="sentry-hook-resource sentry-hook-timestamp request-id", told=_told("", within_seconds=1)),
    _hmac("snyk", "x-hub-signature", "docs.snyk.io/snyk-api/using-specific-snyk-apis/webhooks-apis", "sha256=", keep="x-snyk-event x-snyk-transport-id x-snyk-timestamp"),
    _hmac("sonarqube", "x-sonar-webhook-hmac-sha256", "docs.sonarsource.com/sonarqube-server/latest/project-administration/webhooks/", told=_told("", "github.com/SonarSource/sonarqube/blob/master/server/sonar-server-common/src/main/java/org/sonar/server/util/OkHttpClientProvider.java", within_seconds=10)),
    _hmac("squarespace", "squarespace-signature", "developers.squarespace.com/commerce-apis/webhook-subscriptions-overview", key="hex", id_field="id"),
    _hmac("terraform_cloud", "x-tfe-notification-signature", "developer.hashicorp.com/terraform/cloud-docs/api-docs/notification-configurations", algorithm="sha512", told=_told("2xx", "developer.hashicorp.com/terraform/cloud-docs/workspaces/settings/notifications")),
    _hmac("vercel", "x-vercel-signature", "vercel.com/docs/webhooks/webhooks-api", algorithm="sha1", id_field="id"),
    _hmac("viber", "x-viber-content-signature", "developers.viber.com/docs/api/rest-bot-api/"),
    # The body in base64.
    _base64("aftership", "aftership-hmac-sha256", "www.aftership.com/docs/tracking/webhook/webhook-overview", told=_told("2xx", redelivers=True)),
    _base64("docusign", "x-docusign-signature-1", "developers.docusign.com/platform/webhooks/connect/hmac/", layout=Layout.NUMBERED),
    _base64("fastspring", "x-fs-signature", "developer.fastspring.com/docs/webhooks-overview"),
    _base64("help_scout", "x-helpscout-signature", "developer.helpscout.com/webhooks/", algorithm="sha1", keep="x-helpscout-event"),
    _base64("heroku", "heroku-webhook-hmac-sha256", "devcenter.heroku.com/articles/app-webhooks", id_field="id", told=_told("", "devcenter.heroku.com/changelog-items/1966", over_seconds=72 * _HOUR)),
    _base64("line", "x-line-signature", "developers.line.biz/en/docs/messaging-api/receiving-messages/", told=_told("200")),
    _base64("quickbooks", "intuit-signature", "developer.intuit.com/app/developer/qbo/docs/develop/webhooks", told=_told("200", "developer.intuit.com/app/developer/qbo/docs/develop/webhooks/best-practices", within_seconds=3, redelivers=True)),
    _base64("todoist", "x-todoist-hmac-sha256", "developer.todoist.com/sync/v9/#webhooks", id_headers=("x-todoist-delivery-id",), keep="x-todoist-delivery-id", told=_told("200")),
    _base64("trello", "x-trello-webhook", "developer.atlassian.com/cloud/trello/guides/rest-api/webhooks/", algorithm="sha1", template="{body}{url}", challenge=ChallengeKind.HEAD, id_field="action.id", told=_told("200")),
    _base64("typeform", "typeform-signature", "www.typeform.com/developers/webhooks/secure-your-webhooks/", "sha256=", id_field="event_id"),
    _base64("woocommerce", "x-wc-webhook-signature", "woocommerce.github.io/woocommerce-rest-api-docs/#webhooks", id_headers=("x-wc-webhook-delivery-id",), challenge=ChallengeKind.PING, keep="x-wc-webhook-topic x-wc-webhook-resource x-wc-webhook-event x-wc-webhook-delivery-id", told=_told("2xx", "github.com/woocommerce/woocommerce/blob/trunk/plugins/woocommerce/includes/class-wc-webhook.php", within_seconds=60, retries=0)),
    _base64("xero", "x-xero-signature", "developer.xero.com/documentation/guides/webhooks/configuring-your-server/", told=_told("200", within_seconds=5)),
    # A key that is not its text.
    _hmac("airtable", "x-airtable-content-mac", "airtable.com/developers/web/api/webhooks-overview", "hmac-sha256=", key="base64", answer=204),
    # A time in a header of its own.
    _dated("box", "box-signature-primary box-delivery-timestamp", "developer.box.com/guides/webhooks/v2/signatures-v2/", "{body}{timestamp}", encoding="base64", clock=TimestampFormat.RFC3339, tolerance_seconds=600, id_field="id", escapes=True, told=_told("2xx", "developer.box.com/guides/webhooks/v2/", within_seconds=30, retries=12, over_seconds=2 * _HOUR, restamps=True)),
    _dated("customer_io", "x-cio-signature x-cio-timestamp", "docs.customer.io/journeys/webhooks/", "v0:{timestamp}:{body}", id_field="event_id", told=_told("2xx", "docs.customer.io/api/webhooks", within_seconds=4)),
    _dated("hubspot", "x-hubspot-signature-v3 x-hubspot-request-timestamp", "developers.hubspot.com/docs/apps/legacy-apps/authentication/validating-requests", "POST{url}{body}{timestamp}", encoding="base64", clock=_MS, told=_told("2xx", "developers.hubspot.com/docs/api-reference/latest/error-handling", within_seconds=5, retries=10, over_seconds=_DAY, restamps=True)),
    _dated("webflow", "x-webflow-signature x-webflow-timestamp", "developers.webflow.com/data/docs/working-with-webhooks", "{timestamp}:{body}", clock=_MS, told=_told("", "developers.webflow.com/data/changelog/webhook-retries", retries=2, restamps=True)),
    _dated("whoop", "x-whoop-signature x-whoop-signature-timestamp", "developer.whoop.com/docs/developing/webhooks/", "{timestamp}{body}", encoding="base64", clock=_MS, told=_told("", within_seconds=1)),
    _dated("zendesk", "x-zendesk-webhook-signature x-zendesk-webhook-signature-timestamp", "developer.zendesk.com/documentation/webhooks/verifying/", "{timestamp}{body}", encoding="base64", clock=TimestampFormat.RFC3339),
    # A key pair.
    _dated("discord", "x-signature-ed25519 x-signature-timestamp", "docs.discord.com/developers/events/webhook-events", "{timestamp}{body}", algorithm="ed25519", key="hex", tolerance_seconds=900, answer=204, told=_told("204", within_seconds=3, over_seconds=600)),
    _dated("sendgrid", "x-twilio-email-event-webhook-signature x-twilio-email-event-webhook-timestamp", "www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features", "{timestamp}{body}", algorithm="ecdsa", encoding="base64", key="base64", tolerance_seconds=25 * _HOUR, told=_told("2xx", "www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook", over_seconds=_DAY)),
    _dated("telnyx", "telnyx-signature-ed25519 telnyx-timestamp", "developers.telnyx.com/docs/messaging/messages/receiving-webhooks", "{timestamp}|{body}", algorithm="ed25519", encoding="base64", key="base64", id_field="data.id", told=_told("2xx", "developers.telnyx.com/development/api-fundamentals/webhooks/receiving-webhooks", redelivers=True)),
    # A time and signatures in one header.
    _stamped("buildkite", "x-buildkite-signature", "buildkite.com/docs/apis/webhooks", "timestamp= signature=", told=_told("", "buildkite.com/docs/apis/webhooks/pipelines", restamps=True)),
    _stamped("calendly", "calendly-webhook-signature", "developer.calendly.com/api-docs/4c305798a61d3-webhook-signatures", told=_told("2xx", "developer.calendly.com/api-docs/overview/webhooks/webhook-errors", "developer.calendly.com/api-docs/overview/webhooks/webhook-timeouts", within_seconds=15, over_seconds=_DAY, restamps=True)),
    _stamped("cloudflare_stream", "webhook-signature", "developers.cloudflare.com/stream/manage-video-library/using-webhooks/", "time= sig1="),
    _stamped("elevenlabs", "elevenlabs-signature", "elevenlabs.io/docs/product-guides/administration/webhooks", "t= v0=", tolerance_seconds=1_800, told=_told("200")),
    _stamped("ghost", "x-ghost-signature", "docs.ghost.org/webhooks", "t= sha256=", template="{body}{timestamp}", clock=_MS, told=_told("", "github.com/TryGhost/Ghost/blob/main/ghost/core/core/server/services/webhooks/webhook-trigger.js", within_seconds=2)),
    _stamped("mux", "mux-signature", "www.mux.com/docs/core/verify-webhook-signatures", id_field="id"),
    _stamped("paddle", "paddle-signature", "developer.paddle.com/webhooks/signature-verification", "ts= h1=", separator=";", template="{timestamp}:{body}", id_field="event_id", told=_told("200", "developer.paddle.com/webhooks/about/respond-to-webhooks", within_seconds=5, retries=60, over_seconds=3 * _DAY, restamps=True)),
    _stamped("persona", "persona-signature", "docs.withpersona.com/webhooks-best-practices", layout=Layout.PAIRS, id_field="data.id", told=_told("200 201 202 204", within_seconds=5, redelivers=True, restamps=True)),
    _stamped("sanity", "sanity-webhook-signature", "www.sanity.io/docs/webhooks", encoding="base64url", clock=_MS, tolerance_seconds=7_200, told=_told("", "www.sanity.io/docs/changelog/50ec6abf-fe0c-475b-ae72-314148860132", retries=2, over_seconds=60)),  # its library checks no age
    _stamped("tiktok", "tiktok-signature", "developers.tiktok.com/doc/webhooks-verification", "t= s=", tolerance_seconds=73 * _HOUR, told=_told("200", "developers.tiktok.com/doc/webhooks-overview/", over_seconds=72 * _HOUR)),
    _stamped("workos", "workos-signature", "workos.com/docs/events/data-syncing/webhooks", clock=_MS, id_field="id"),
    # Standard Webhooks under a provider's own name.
    _standard("brex", "webhook", "developer.brex.com/docs/webhooks/"),
    _standard("clerk", "svix", "clerk.com/docs/webhooks/sync-data", told=_told("2xx", "clerk.com/docs/guides/development/webhooks/overview", "docs.svix.com/retries", retries=7, over_seconds=_SVIX_SECONDS, restamps=True)),
    _standard("incident_io", "webhook", "api-docs.incident.io/tag/Webhooks"),
    _standard("openai", "webhook", "platform.openai.com/docs/guides/webhooks", told=_told("2xx", over_seconds=72 * _HOUR, restamps=True)),
    _standard("render", "webhook", "render.com/docs/webhooks"),
    _standard("replicate", "webhook", "replicate.com/docs/topics/webhooks/verify-webhook", told=_told("2xx", "replicate.com/docs/topics/webhooks/receive-webhook", over_seconds=60, restamps=True)),
    _standard("resend", "svix", "resend.com/docs/dashboard/webhooks/verify-webhooks-requests", told=_told("200", "resend.com/docs/webhooks/create-webhook", "resend.com/docs/webhooks/retries-and-replays", retries=7, over_seconds=_SVIX_SECONDS, restamps=True)),
    # The secret itself.
    _token("azure_event_grid", "token", "learn.microsoft.com/azure/event-grid/end-point-validation-event-grid-events-schema", place=SignaturePlace.QUERY, challenge=ChallengeKind.EVENT_GRID, told=_told("200 201 202 203 204", "learn.microsoft.com/azure/event-grid/delivery-and-retry", within_seconds=30, over_seconds=_DAY)),
    _token("microsoft_graph", "value.*.clientState", "learn.microsoft.com/graph/change-notifications-delivery-webhooks", place=SignaturePlace.BODY, challenge=ChallengeKind.GRAPH, told=_told("2xx", within_seconds=10, over_seconds=4 * _HOUR)),
    _basic("chargebee", "www.chargebee.com/docs/billing/2.0/site-configuration/webhook_settings", id_field="id", told=_told("200", "www.chargebee.com/docs/1.0/site-configuration/articles-and-faq/how-would-i-know-if-the-configured-webhook-url-in-my-chargebee-site-is-failing.html", retries=7, over_seconds=3 * _DAY)),
    _token("cloudflare_notifications", "cf-webhook-auth", "developers.cloudflare.com/notifications/get-started/configure-webhooks/"),
    _token("flutterwave", "verif-hash", "developer.flutterwave.com/docs/integration-guides/webhooks/", told=_told("200", "developer.flutterwave.com/docs/webhooks", within_seconds=60, retries=3, over_seconds=5_400)),
    _token("gitlab", "x-gitlab-token", "docs.gitlab.com/user/project/integrations/webhooks/", told=_told("", "gitlab.com/gitlab-com/gl-infra/production/-/issues/1228", within_seconds=10)),
    _basic("postmark", "postmarkapp.com/developer/webhooks/webhooks-overview", told=_told("200", "postmarkapp.com/support/article/understanding-inbound-webhook-retries-in-postmark", retries=10, over_seconds=37_800)),
    _token("revenuecat", "authorization", "www.revenuecat.com/docs/integrations/webhooks", id_field="event.id", told=_told("200", within_seconds=60, retries=5, over_seconds=9_300)),
    _token("telegram", "x-telegram-bot-api-secret-token", "core.telegram.org/bots/api#setwebhook", id_field="update_id", told=_told("2xx", redelivers=True)),
    # A signature in the query or in the body.
    _hmac("pandadoc", "signature", "developers.pandadoc.com/docs/webhooks-verification", place=SignaturePlace.QUERY),
    Scheme(
        "mailgun",
        (Names("signature.signature", "signature.timestamp", "signature.token"),),
        place=SignaturePlace.BODY,
        template="{timestamp}{id}",
        tolerance_seconds=36_000,  # its retries take 8 hours
        partial=True,
        facts=_facts("documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks", told=_told("200", "documentation.mailgun.com/docs/mailgun/user-manual/webhooks/webhook-retries", retries=6, over_seconds=8 * _HOUR)),
    ),
    Scheme(
        "adyen",
        (Names("notificationItems.0.NotificationRequestItem.additionalData.hmacSignature"),),
        place=SignaturePlace.BODY,
        form=Form.ADYEN,
        encoding="base64",
        key="hex",
        partial=True,
        facts=_facts("docs.adyen.com/development-resources/webhooks/verify-hmac-signatures", answer=200, told=_told("2xx", "docs.adyen.com/development-resources/webhooks/troubleshoot", "docs.adyen.com/japan-sellers-screening/webhooks", within_seconds=10, over_seconds=30 * _DAY)),
    ),
)  # fmt: skip
