"""The table of senders, `shared/millrace/signatures/README.md`; run as a program, it writes it."""

from __future__ import annotations

import json
import re
from pathlib import Path

from millrace.signatures import PRESETS, Scheme
from millrace.signatures.scheme import DeliveryFacts, SignaturePlace

PAGE = Path(__file__).parents[2] / "shared" / "millrace" / "signatures" / "README.md"

ROOT = PAGE.parents[3]
ORACLE_FOLDER = Path(__file__).parent / "oracles"

#: The providers' own libraries that the schemes are held to, in `test_verification_oracles*.py`: on PyPI,
PYPI = {
    "adyen": "Adyen",
    "discord": "discord-interactions",
    "easypost": "easypost",
    "gocardless": "gocardless-pro",
    "razorpay": "razorpay",
    "sendgrid": "sendgrid",
    "slack": "slack_sdk",
    "square": "squareup",
    "standard_webhooks": "standardwebhooks",
    "stripe": "stripe",
    "svix": "svix",
    "twilio": "twilio",
}
#: and on npm.
NPM = {
    "aws_sns": "sns-validator",
    "box": "box-node-sdk",
    "clerk": "@clerk/backend",
    "coinbase_commerce": "coinbase-commerce-node",
    "github": "@octokit/webhooks-methods",
    "google_pubsub": "google-auth-library",
    "hubspot": "@hubspot/api-client",
    "line": "@line/bot-sdk",
    "linear": "@linear/sdk",
    "messagebird": "messagebird",
    "modern_treasury": "modern-treasury",
    "mux": "@mux/mux-node",
    "notion": "@notionhq/client",
    "onfido": "@onfido/api",
    "openai": "openai",
    "paddle": "@paddle/paddle-node-sdk",
    "pusher": "pusher",
    "replicate": "replicate",
    "resend": "resend",
    "sanity": "@sanity/webhook",
    "shopify": "@shopify/shopify-api",
    "telnyx": "telnyx",
    "viber": "viber-bot",
    "vonage": "@vonage/jwt",
    "webflow": "webflow-api",
    "workos": "@workos-inc/node",
    "zoom": "@zoom/rivet",
}
ORACLES = {**PYPI, **NPM}
#: Rows that were compared with what their makers wrote: code that signs or verifies, or documentation.
MAKERS = {
    **dict.fromkeys(
        """
        alchemy azure_event_grid buildkite chargebee checkout_com circleci cloudflare_notifications cloudflare_stream
        gitlab mailgun microsoft_graph pagerduty patreon persona revenuecat segment sentry snyk telegram terraform_cloud
        x
        """.split(),  # noqa: SIM905
        "maker's docs",
    ),
    "btcpay": "maker's code: BTCPay Server",
    "cal_com": "maker's code: Cal.com",
    "discourse": "maker's code: Discourse",
    "elevenlabs": "maker's code: elevenlabs-js 2.73.0",
    "ghost": "maker's code: Ghost",
    "gitea": "maker's code: Gitea",
    "gogs": "maker's code: Gogs",
    "paypal": "maker's code: paypalrestsdk 1.13.3",
    "sonarqube": "maker's code: SonarQube",
    "woocommerce": "maker's code: WooCommerce",
}
#: Rows that were compared with public code of others who receive these webhooks.
RECEIVERS = frozenset(
    """
    aftership airtable bitbucket brex calendly chargify checkr clickup customer_io docusign dropbox dwolla fastspring
    flutterwave help_scout heroku incident_io intercom jira launchdarkly lemon_squeezy meta netlify nylas pandadoc
    paystack plaid plaid_sandbox postmark quickbooks render squarespace tiktok todoist trello twitch typeform vercel
    whoop xero zendesk
    """.split()  # noqa: SIM905
)

#: What the secret of a webhook is, where the provider's keys are published; everybody may know it but Plaid's.
SECRETS = {
    "aws_sns": "the topic's ARN: messages of any other topic are refused",
    "paypal": "the webhook's id, which PayPal signs",
    "google_pubsub": "`AUDIENCE EMAIL`: the push subscription's audience and service account, a blank between them",
    "plaid": "`CLIENT_ID:SECRET`, with which Plaid is asked for its key",
    "plaid_sandbox": "the same, of the sandbox",
}

HEAD = """# Senders

How each provider proves a delivery, and what somebody who captured one can do with it. Written from the code by
`python -m tests.signatures.provider_page`; a test fails while it is not current. How to verify a scheme of your own is
in the [definitions' README](../definitions/README.md#settings-of-a-webhook).

**Replay** is what a captured delivery can do. *Once*: sent again it is a repeat for as long as it verifies, if the
queue's `window_seconds` is at least that (the compiler warns). *Again after the window*: nothing dates it, so it runs
again once the queue has forgotten it. *Anything*: the secret itself is sent. Headers that are not signed can always be
changed, but make no new delivery of a captured one (except for Shopify's known topics: the same bytes run once for
each); the compiler warns where a queue reads one.

**Ed25519 and ECDSA** (discord, telnyx, sendgrid, and `whpk_` keys of Standard Webhooks): `millrace send` signs
them with a private key in the same form: an Ed25519 seed, or PKCS 8 for ECDSA.

**Published keys** (aws_sns, paypal, google_pubsub, plaid, plaid_sandbox) are fetched by the ingress over TLS from one
pinned address of the maker, without redirects, in 2 s and 64 KB at most, and kept for an hour. While they cannot be
had, a delivery is answered 503 and sent again; an unknown key is looked for once a minute. The secret says which of the
maker's deliveries are meant for us:

{secrets}

Nobody else can sign as they do, so `millrace send` cannot: have the provider send a test delivery. Of the others with a
token (netlify, vonage, messagebird) the secret is shared, and it can.

**Questions before the first event** are answered by the webhook itself, nothing is queued: slack, zoom, twitch, meta,
x, dropbox, nylas, trello (HEAD), microsoft_graph, woocommerce (its ping), azure_event_grid (the code, and OPTIONS for
CloudEvents) and aws_sns (the subscription is confirmed). Event Grid's secret is the parameter `token` of the webhook's
address, Graph's is the subscription's `clientState`. notion sends its secret in an unsigned first call: let a webhook
with `verify: none` take that one, set the secret, then let the real webhook verify.

*Checked against* says how we know. A library and its version: every run of the tests holds the row to it, both ways.
*Maker's code*, *maker's docs*: read once and compared. *Receivers*: public code of others who receive these webhooks
agrees with the row, read once. The samples' bodies are in the provider's style. Of microsoft_graph the `clientState` is
checked, not the tokens of notifications with resource data. Send a test delivery before you rely on a row without a
library.

*Answer* is what a delivery that is taken is answered, *takes* what its provider counts as taken, *within* the seconds
that it waits, *retries* how often and for how long it comes back; blank where *read more* does not say.

| provider | proof | replay | answer | takes | within s | retries | checked against | read more |
|---|---|---|---|---|---|---|---|---|
"""


def page() -> str:
    secrets = "".join(f"- {name}: {meaning}\n" for name, meaning in SECRETS.items())
    return HEAD.replace("{secrets}\n", secrets) + "".join(
        f"| {' | '.join(row(scheme))} |\n" for _, scheme in sorted(PRESETS.items())
    )


def row(scheme: Scheme) -> tuple[str, ...]:
    delivery = scheme.facts.delivery
    within = delivery.within_seconds
    return (
        scheme.name,
        proof(scheme),
        replay(scheme),
        str(scheme.facts.success_status),
        delivery.accepts.replace(" ", ", "),
        f"{within:g}" if within else "",
        retries(delivery),
        checked(scheme),
        ", ".join((link(scheme.facts.source), *(f"[deliveries]({address})" for address in delivery.sources))),
    )


def link(address: str) -> str:
    return f"[{address.removeprefix('https://').partition('/')[0]}]({address})"


def retries(delivery: DeliveryFacts) -> str:
    if delivery.retries == 0:
        return "none"
    told = [str(delivery.retries)] if delivery.retries else []
    told += [f"in {duration(delivery.over_seconds)}"] if delivery.over_seconds else []
    return " ".join(told) or ("yes" if delivery.redelivers else "")


def duration(seconds: int) -> str:
    unit, name = next(
        ((unit, name) for unit, name in ((86_400, "d"), (3_600, "h"), (60, "min")) if seconds >= 2 * unit), (1, "s")
    )
    return f"{round(seconds / unit, 1):g} {name}"


def checked(scheme: Scheme) -> str:
    """The library and its version, as the locks have it."""
    if scheme.name in NPM:
        package = NPM[scheme.name]
        return f"{package} {json.loads((ORACLE_FOLDER / 'package.json').read_text('utf-8'))['dependencies'][package]}"
    if scheme.name not in PYPI:
        return MAKERS.get(scheme.name) or ("receivers" if scheme.name in RECEIVERS else "nothing")
    package = PYPI[scheme.name]
    lock = (ROOT / "infra" / "locks" / "dev.txt").read_text("utf-8")
    (version,) = re.findall(rf"^{package.lower().replace('_', '-')}==(\S+)", lock, re.MULTILINE)
    return f"{package} {version}"


def proof(scheme: Scheme) -> str:
    where = {SignaturePlace.HEADER: "", SignaturePlace.QUERY: "query ", SignaturePlace.BODY: "body "}[scheme.place]
    name = f"{where}`{scheme.names[0].signature.rpartition('.')[2]}`"
    if scheme.algorithm == "token":
        return f"{name}: {'user and password' if scheme.prefix == 'Basic ' else 'the secret itself'}"
    if scheme.jwt is not None:
        return f"{name}: token ({scheme.jwt.algorithm}) {'of the body' if scheme.jwt.body_claim else 'of the sender'}"
    kind = scheme.algorithm.upper() if scheme.asymmetric or scheme.certificate else f"HMAC-{scheme.algorithm.upper()}"
    covered = {"twilio": "URL and fields", "adyen": "eight fields", "sns": "six or seven fields"}.get(
        scheme.form, f"`{scheme.template}`"
    )
    return f"{name}: {kind} of {covered}, {scheme.encoding}".replace("|", r"\|")


def replay(scheme: Scheme) -> str:
    """What a captured delivery can do."""
    if scheme.bearer:
        return "anything" if scheme.replay_seconds is None else f"anything for {scheme.replay_seconds} s"
    limit = "again after the window" if scheme.replay_seconds is None else f"once ({scheme.replay_seconds} s)"
    return f"{limit}; the rest of the body can be changed" if scheme.partial else limit


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
