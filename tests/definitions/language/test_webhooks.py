"""Webhooks: presets, schemes of one's own, secrets with windows, with a queue and without."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from millrace.definitions import SecretKind, TargetKind, WebhookDefinition
from millrace.signatures import PRESETS, scheme_from
from tests.definitions.writing import MESSAGE, loaded, messages

QUEUE = f"queue Jobs {{ {MESSAGE} drained_by: api }}"


def webhook(body: str) -> WebhookDefinition:
    return loaded(f"app T {{ {QUEUE} webhook W {{ queue: Jobs {body} }} }}").webhook("W")


def findings(body: str, queue: str = QUEUE) -> list[str]:
    return messages(f"app T {{ {queue} webhook W {{ {body} }} }}")


@pytest.mark.parametrize("provider", PRESETS)
def test_every_preset_compiles_to_a_scheme(provider: str) -> None:
    token = "verify_token: 'env:T'" if provider == "meta" else ""
    # Their retries take days: a queue needs a longer window for them, or a shorter tolerance.
    shorter = "tolerance_seconds: 86100" if provider in {"paypal", "sendgrid", "tiktok"} else ""
    defined = webhook(f'provider: {provider} secret_env: "S" {token} {shorter}')
    assert defined.provider == provider
    assert defined.signature_settings is not None
    assert scheme_from(defined.signature_settings).name == provider


def test_the_header_of_a_provider_means_its_scheme() -> None:
    defined = webhook('verify_hmac { header: "X-PagerDuty-Signature" secret_env: "S" }')
    assert (defined.provider, defined.hmac) == ("pagerduty", None)


def test_a_scheme_of_ones_own_keeps_its_settings() -> None:
    defined = webhook(
        """verify_hmac {
          header: "X-Signature" prefix: "v2=" algorithm: sha512 encoding: base64 timestamp_header: "X-Time"
          timestamp_unit: milliseconds tolerance_seconds: 60 template: "{timestamp}:{body}" secret_env: "S"
        }"""
    )
    assert defined.provider is None
    assert defined.signature_settings == {
        "header": "X-Signature",
        "prefix": "v2=",
        "algorithm": "sha512",
        "encoding": "base64",
        "timestamp_header": "X-Time",
        "timestamp_unit": "milliseconds",
        "tolerance_seconds": 60,
        "template": "{timestamp}:{body}",
    }
    assert scheme_from(defined.signature_settings).name == "generic"


def test_during_a_rotation_both_secrets_count() -> None:
    defined = webhook(
        """provider: github
        secret "env:OLD" { valid_until: "2026-12-01T00:00:00Z" }
        secret "secretsmanager:millrace/github#new" { valid_from: "2026-11-01T01:00:00+01:00" }"""
    )

    def valid(month: int) -> list[str]:
        return defined.secrets_at(datetime(2026, month, 1, tzinfo=UTC))

    assert valid(10) == ["env:OLD"]
    assert valid(11) == ["env:OLD", "secretsmanager:millrace/github#new"]
    assert valid(12) == ["secretsmanager:millrace/github#new"]
    assert defined.secrets[1].source is SecretKind.SECRETS_MANAGER


def test_a_webhook_without_a_queue_runs_its_command() -> None:
    text = """app T { webhook W {
      provider: slack  secret: "ssm:/slack/secret"
      map_to: command Chat.Answer { text: payload.text  at: received_at }
    } }"""
    defined = loaded(text).webhook("W")
    assert defined.queue is None
    assert defined.target is not None
    assert (defined.target.kind, defined.target.entity, defined.target.command) == (
        TargetKind.COMMAND,
        "Chat",
        "Answer",
    )
    message = {"payload": {"text": "hi"}, "headers": {}, "source_ip": "::1", "received_at": "2026-11-16T09:30:00Z"}
    assert defined.message_type is not None
    assert defined.message_type.validate(message) == []
    assert defined.target.render(message) == {"text": "hi", "at": "2026-11-16T09:30:00Z"}


def test_a_webhook_knows_the_message_type_of_its_queue() -> None:
    narrow = "queue Jobs { message_type { payload: { id: string } } drained_by: api }"
    defined = loaded(f"app T {{ {narrow} webhook W {{ queue: Jobs verify: none }} }}").webhook("W")
    assert defined.message_type is not None
    assert [str(problem) for problem in defined.message_type.validate({"payload": {}})] == [
        "payload.id: expected a string, found nothing"
    ]
    assert not defined.verified


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("queue: Jobs", "does not say how it is verified"),
        ("queue: Jobs provider: githup secret_env: 'S'", "did you mean `github`?"),
        ("queue: Jobs provider: github", "the webhook `W` has no secret"),
        ("queue: Jobs provider: github verify: none", "`provider` and `verify` exclude each other"),
        ("queue: Jobs provider: github secret: 's3cr3t'", "named by its place, never written here"),
        ("queue: Jobs provider: github secret: 'vault:x'", "named by its place"),
        ("queue: Jobs provider: github secret: 'envv:X'", "did you mean `env`?"),
        ("queue: Jobs provider: github secret_env: 'A B'", "named by its place"),
        ("queue: Jobs provider: github secret_env: 'A-B'", "not the name of an environment variable"),
        ("queue: Jobs provider: github tolerance_seconds: 5 secret_env: 'S'", "github signs no time"),
        ("queue: Jobs verify_hmac { secret_env: 'S' }", "`verify_hmac` does not name its header"),
        ("queue: Jobs verify_hmac { header: 'a b' secret_env: 'S' }", "`header` is not the name of a header"),
        ("queue: Jobs verify_hmac { header: 'X' algorithm: md5 secret_env: 'S' }", "`algorithm` must be one of"),
        ("queue: Jobs verify_hmac { header: 'X' template: '{bdy}' secret_env: 'S' }", "nothing could be verified"),
        ("queue: Jobs verify_hmac { header: 'X' timestamp_header: 'T' template: '{body}' secret_env: 'S' }",
         "a timestamp counts only where it is signed"),
        ("queue: Jobs provider: github secret 'env:S' { valid_until: 'soon' }", "must be an RFC 3339 time"),
        ("verify: none secret 'env:S' { valid_from: '2026-02-01T00:00:00Z' valid_until: '2026-01-01T00:00:00Z' }",
         "the secret is never valid"),
        ("queue: Jobs verify: none map_to: command A.B {}", "move `map_to` into the queue"),
        ("verify: none", "the webhook `W` leads nowhere"),
        ("verify: none map_to: queue Jobs {}", "write `queue: Jobs`"),
        ("verify: none map_to: command A.B {} map_to: command A.C {}", "put a queue before them"),
        ("verify: none map_to: http 'https://example.com' {}", "put a queue before it"),
        ("verify: none map_to: lambda 'report' {}", "put a queue before it"),
        ("queue: Job verify: none", "there is no queue `Job` | did you mean `Jobs`?"),
        ("queue: Jobs verify: none public_url: 'http://x'", "providers sign an https address"),
        ("queue: Jobs verify: none public_url: 'https://x/{team}'", "in braces only `{tenant}`"),
        ("queue: Jobs provider: meta secret_env: 'S'", "write `verify_token: \"env:NAME\"`"),
        ("queue: Jobs provider: github secret_env: 'S' unsigned_headers: 'x'", "must be a list of headers"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_webhook_is_named_with_its_remedy(body: str, says: str) -> None:
    found = findings(body)
    assert any(says in message for message in found), found


def test_a_queue_that_needs_more_than_a_webhook_fills_is_refused() -> None:
    wrong = "queue Jobs { message_type { payload: json  user: string  headers: json  source_ip: int } drained_by: api }"
    found = findings("queue: Jobs verify: none", wrong)
    assert any("no webhook fills the field `user`" in message for message in found)
    assert any("write `source_ip: string`" in message for message in found)
    assert len(found) == 2


@pytest.mark.parametrize(
    ("reads", "header"),
    [
        ("filter: headers['x-github-event'] == 'push'", "x-github-event"),
        ("ordering: per_key(headers['x-github-delivery'])", "x-github-delivery"),
        ("idempotency { key: headers['x-github-delivery'] }", "x-github-delivery"),
        ("filter: size(headers['x-kind']) > 3", "x-kind"),
        ("filter: has(headers.host) && payload.a == 1", "host"),
        ("filter: size(headers) > 1", "(all)"),
    ],
)
def test_a_header_that_is_read_and_not_signed_is_warned_about(reads: str, header: str) -> None:
    queue = f"queue Jobs {{ {MESSAGE} drained_by: api {reads} }}"
    (warning,) = findings("queue: Jobs provider: github secret_env: 'S'", queue)
    assert f"reads the header `{header}`, which github does not sign" in warning
    assert findings(f"queue: Jobs provider: github secret_env: 'S' unsigned_headers: ['{header}']", queue) == []


def test_a_mapping_that_reads_an_unsigned_header_is_warned_about_and_a_signed_one_is_not() -> None:
    for header, warned in (("x-slack-retry-num", True), ("x-slack-request-timestamp", False)):
        queue = f"queue Jobs {{ {MESSAGE} map_to: command A.B {{ n: headers['{header}'] }} }}"
        found = findings("queue: Jobs provider: slack secret_env: 'S'", queue)
        assert bool(found) == warned, found


def test_a_window_shorter_than_a_delivery_verifies_is_warned_about() -> None:
    short = f"queue Jobs {{ {MESSAGE} drained_by: api idempotency {{ window_seconds: 28800 }} }}"
    (warning,) = findings("queue: Jobs provider: linear secret_env: 'S'", short)
    assert "repeats are known for 28800 s" in warning
    assert "window_seconds: 29100" in warning
    assert findings("queue: Jobs provider: linear secret_env: 'S'", short.replace("28800", "29100")) == []
