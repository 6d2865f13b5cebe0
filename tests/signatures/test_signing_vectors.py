"""The vectors that providers publish."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from millrace.signatures import Secret, WebhookRequest, preset, verify
from millrace.signatures.signing import sign

SLACK_BODY = (
    "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V"
    "&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text="
    "&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    "&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
TWILIO_FORM = urlencode(
    {
        "To": "+18005551212",
        "CallSid": "CA1234567890ABCDE",
        "Caller": "+14158675309",
        "Digits": "1234",
        "From": "+14158675309",
    }
)

VECTORS = {
    "standard_webhooks": (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        1614265330,
        b'{"test": 2432232314}',
        {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
            "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        },
    ),
    "github": (
        "It's a Secret to Everybody",
        1,
        b"Hello, World!",
        {"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"},
    ),
    "slack": (
        "8f742231b10e8888abcd99yyyzzz85a5",
        1531420618,
        SLACK_BODY.encode(),
        {
            "X-Slack-Request-Timestamp": "1531420618",
            "X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
        },
    ),
    "shopify": (
        "test_secret_key",
        1,
        b'{"foo": "bar"}',
        {"X-Shopify-Hmac-SHA256": "B23tXN681gZ0qIWNRrgtzBE9XSDo5yaUu6wfmhu3a7g="},
    ),
    "twilio": (
        "12345",
        1,
        TWILIO_FORM.encode(),
        {
            "X-Twilio-Signature": "RSOYDt4T1cUTdK1PDd93/VVr8B8=",
            "Content-Type": "application/x-www-form-urlencoded",
        },
    ),
}
VECTORS["svix"] = VECTORS["standard_webhooks"]
VECTORS["meta"] = VECTORS["github"]

URL = "https://mycompany.com/myapp.php?foo=1&bar=2"


@pytest.mark.parametrize("name", VECTORS)
def test_published_vector_is_accepted(name: str) -> None:
    secret, at, body, headers = VECTORS[name]
    request = WebhookRequest.build("POST", URL, headers, body)
    assert verify(preset(name), request, [Secret("published", secret)], at * 1000).secret_name == "published"


@pytest.mark.parametrize("name", [name for name in VECTORS if name != "svix"])
def test_signing_gives_the_published_vector(name: str) -> None:
    secret, at, body, headers = VECTORS[name]
    sent = {key.lower(): value for key, value in headers.items()}
    made = sign(
        preset(name),
        Secret("published", secret),
        body,
        at * 1000,
        url=URL,
        delivery_id=sent.get("webhook-id", ""),
        content_type=sent.get("content-type", "application/json"),
    )
    assert made == {key: value for key, value in sent.items() if key != "content-type"}
