"""What a definition decides for a message and for a webhook, by itself."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from millrace.definitions import QueueDefinition
from millrace.definitions.model import HmacSettings, SecretKind, SecretReference, WebhookDefinition
from tests.definitions.writing import loaded, queue_text


def queue(body: str) -> QueueDefinition:
    return loaded(queue_text(body)).queue("Jobs")


@pytest.mark.parametrize(
    ("payload", "accepted"),
    [({"kind": "sale"}, True), ({"kind": "gift"}, False), ({}, True), (None, True)],
)
def test_a_filter_drops_only_what_it_can_judge(payload: Any, accepted: bool) -> None:
    assert queue("filter: payload.kind == 'sale'").accepts({"payload": payload}) is accepted
    assert queue("").accepts({"payload": payload})


@pytest.mark.parametrize(
    ("payload", "key"), [({"id": "k"}, "k"), ({"id": 7}, "7"), ({"id": ""}, None), ({"id": True}, None), ({}, None)]
)
def test_a_key_is_text_or_missing(payload: Any, key: str | None) -> None:
    definition = queue("key: payload.id  idempotency { key: payload.id }")
    assert definition.key_of({"payload": payload}) == key
    assert definition.idempotency_key_of({"payload": payload}) == key
    assert queue("").key_of({"payload": payload}) is None


def test_a_target_without_a_mapping_hands_over_the_whole_message() -> None:
    (target,) = queue("map_to: command Orders.Ship").targets
    assert (target.entity, target.command, target.render({"payload": 1})) == ("Orders", "Ship", {"payload": 1})


def moment(day: int) -> datetime:
    return datetime(2026, 1, day, tzinfo=UTC)


def test_a_secret_counts_from_its_first_moment_to_before_its_last() -> None:
    rotated = SecretReference(SecretKind.ENV, "NEW", valid_from=moment(2), valid_until=moment(4))
    assert [rotated.valid_at(moment(day)) for day in (1, 2, 3, 4)] == [False, True, True, False]
    assert SecretReference(SecretKind.SSM, "/a").reference == "ssm:/a"


def webhook(provider: str | None = None, hmac: HmacSettings | None = None) -> WebhookDefinition:
    secrets = (
        SecretReference(SecretKind.ENV, "OLD", valid_until=moment(3)),
        SecretReference(SecretKind.ENV, "NEW", valid_from=moment(2)),
    )
    return WebhookDefinition("w", "A", provider, hmac, secrets, "Jobs", None, None, verify_token=secrets[1])


def test_a_webhook_names_its_scheme_and_the_secrets_of_the_moment() -> None:
    assert webhook("github").signature_settings == {"provider": "github"}
    assert webhook(hmac=HmacSettings("X-Sign", prefix="v1=")).signature_settings == {
        "header": "X-Sign",
        "prefix": "v1=",
    }
    assert (webhook().verified, webhook().signature_settings) == (False, None)
    assert [webhook("github").secrets_at(moment(day)) for day in (1, 2, 3)] == [
        ["env:OLD"],
        ["env:OLD", "env:NEW"],
        ["env:NEW"],
    ]
    assert [webhook("github").tokens_at(moment(day)) for day in (1, 2)] == [[], ["env:NEW"]]
