"""Providers that prove a delivery with a token, or with keys that they publish.

What the secret of such a webhook says is in the table of senders.
"""

from __future__ import annotations

from millrace.signatures.scheme import (
    Certificate,
    ChallengeKind,
    DeliveryFacts,
    Facts,
    Form,
    JwtRules,
    Names,
    Scheme,
    SignaturePlace,
    TimestampFormat,
)

_HOUR = 3_600
_DAY = 24 * _HOUR


def _plaid(name: str, host: str) -> Scheme:
    keys = f"https://{host}/webhook_verification_key/get"
    return Scheme(
        name,
        (Names("plaid-verification"),),
        algorithm="jwt",
        encoding="plain",
        tolerance_seconds=300,
        jwt=JwtRules("ES256", keys, asked_by_id=True, time_claim="iat", body_claim="request_body_sha256"),
        facts=Facts(
            source="https://plaid.com/docs/api/webhooks/webhook-verification/",
            success_status=200,
            delivery=DeliveryFacts(
                "200",
                within_seconds=10,
                over_seconds=_DAY,
                restamps=True,
                sources=("https://plaid.com/docs/api/webhooks/",),
            ),
        ),
    )


PUBLISHED = (
    Scheme(
        "aws_sns",
        (Names("Signature", "Timestamp", "MessageId"),),
        place=SignaturePlace.BODY,
        algorithm="rsa",
        encoding="base64",
        form=Form.SNS,
        template="{id}{timestamp}",
        clock=TimestampFormat.RFC3339,
        # Retries carry the first time; a topic's own policy may spread them over an hour.
        tolerance_seconds=7_200,
        partial=True,
        challenge=ChallengeKind.SNS,
        certificate=Certificate(
            "SigningCertURL",
            r"https://sns\.(?P<region>[a-z0-9-]{3,32})\.amazonaws\.com(\.cn)?/SimpleNotificationService-[A-Za-z0-9]{8,64}\.pem",
            "SignatureVersion",
            (("1", "sha1"), ("2", "sha256")),
        ),
        facts=Facts(
            source="https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html",
            success_status=200,
            delivery=DeliveryFacts(
                over_seconds=_HOUR,
                sources=("https://docs.aws.amazon.com/sns/latest/dg/sns-message-delivery-retries.html",),
            ),
            event_headers=("x-amz-sns-message-type", "x-amz-sns-message-id", "x-amz-sns-topic-arn"),
        ),
    ),
    Scheme(
        "paypal",
        (Names("paypal-transmission-sig", "paypal-transmission-time", "paypal-transmission-id"),),
        algorithm="rsa",
        encoding="base64",
        template="{id}|{timestamp}|{secret}|{crc32}",
        clock=TimestampFormat.RFC3339,
        # Whether a retry carries the first time is not said, and retries go on for three days.
        tolerance_seconds=4 * 86_400,
        partial=True,
        certificate=Certificate(
            "paypal-cert-url",
            r"https://api(-m)?(\.sandbox)?\.paypal\.com/v1/notifications/certs/[A-Za-z0-9-]{1,80}",
            "paypal-auth-algo",
            (("SHA256withRSA", "sha256"),),
            subject=".paypal.com",
        ),
        facts=Facts(
            source="https://developer.paypal.com/api/rest/webhooks/rest",
            success_status=200,
            delivery=DeliveryFacts(
                "2xx",
                retries=25,
                over_seconds=3 * _DAY,
                sources=("https://developer.paypal.com/api/rest/webhooks/",),
            ),
            event_headers=("paypal-transmission-id", "paypal-transmission-time"),
        ),
    ),
    Scheme(
        "google_pubsub",
        (Names("authorization"),),
        prefix="Bearer ",
        algorithm="jwt",
        encoding="plain",
        # A token serves several deliveries: it is valid for an hour.
        tolerance_seconds=3_900,
        id_field="message.messageId",
        jwt=JwtRules(
            "RS256",
            "https://www.googleapis.com/oauth2/v3/certs",
            issuers=("https://accounts.google.com", "accounts.google.com"),
            time_claim="iat",
            identity=True,
        ),
        facts=Facts(
            source="https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions",
            success_status=204,
            delivery=DeliveryFacts(
                "102 200 201 202 204",
                redelivers=True,
                sources=("https://cloud.google.com/pubsub/docs/push",),
            ),
        ),
    ),
    _plaid("plaid", "production.plaid.com"),
    _plaid("plaid_sandbox", "sandbox.plaid.com"),
    Scheme(
        "netlify",
        (Names("x-webhook-signature"),),
        algorithm="jwt",
        encoding="plain",
        jwt=JwtRules("HS256", issuers=("netlify",), body_claim="sha256"),
        facts=Facts(source="https://docs.netlify.com/deploy/deploy-notifications/", success_status=200),
    ),
    Scheme(
        "vonage",
        (Names("authorization"),),
        prefix="Bearer ",
        algorithm="jwt",
        encoding="plain",
        tolerance_seconds=300,
        jwt=JwtRules("HS256", time_claim="iat", body_claim="payload_hash"),
        facts=Facts(
            source="https://developer.vonage.com/en/getting-started/concepts/webhooks",
            success_status=200,
            delivery=DeliveryFacts("200 201 202 203 204 205", redelivers=True),
        ),
    ),
    Scheme(
        "messagebird",
        (Names("messagebird-signature-jwt"),),
        algorithm="jwt",
        encoding="plain",
        tolerance_seconds=300,
        jwt=JwtRules(
            "HS256", issuers=("MessageBird",), time_claim="nbf", body_claim="payload_hash", url_claim="url_hash"
        ),
        facts=Facts(
            source="https://developers.messagebird.com/api/#verifying-http-requests",
            success_status=200,
        ),
    ),
)
