"""Subscriptions of Amazon SNS are confirmed by themselves, at Amazon's own address, and nowhere else."""

from __future__ import annotations

import json

import pytest

from millrace.signatures import SignatureInvalid, WebhookRequest
from millrace.signatures.confirmations import confirm
from millrace.signatures.errors import KeysUnavailable
from tests.signatures.cases import URL
from tests.signatures.issuers import TOPIC, Makers, keys_of

ADDRESS = (
    "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription"
    "&TopicArn=arn%3Aaws%3Asns%3Aeu-central-1%3A123456789012%3Amill&Token=2336412f37"
)


def asking(**fields: object) -> WebhookRequest:
    document = {
        "Type": "SubscriptionConfirmation",
        "TopicArn": TOPIC,
        "Token": "2336412f37",
        "SubscribeURL": "https://evil.example/?Token=2336412f37",
    }
    return WebhookRequest.build("POST", URL, {}, json.dumps({**document, **fields}).encode())


def test_the_address_is_written_here_whatever_the_message_says() -> None:
    makers = Makers(**{ADDRESS: b"<ConfirmSubscriptionResponse/>"})
    answer = confirm(asking(), keys_of(makers))
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"")
    assert [address.url for address in makers.asked] == [ADDRESS]


def test_china_has_a_host_of_its_own() -> None:
    makers = Makers()
    with pytest.raises(KeysUnavailable):
        confirm(asking(TopicArn="arn:aws-cn:sns:cn-north-1:123456789012:mill"), keys_of(makers))
    assert makers.asked[0].url.startswith("https://sns.cn-north-1.amazonaws.com.cn/?")


def test_amazon_asks_again_where_it_did_not_answer() -> None:
    makers = Makers()
    makers.down = True
    with pytest.raises(KeysUnavailable) as silent:
        confirm(asking(), keys_of(makers))
    assert "2336412f37" not in silent.value.problem


@pytest.mark.parametrize(
    "fields",
    [
        {"Token": "a&Action=DeleteTopic"}, {"Token": ""}, {"Token": 7}, {"Token": "a#b"}, {"Token": None},
        {"TopicArn": "arn:aws:sns:evil.example/:123456789012:x"}, {"TopicArn": "arn:aws:sns:eu-central-1:1:x"},
        {"TopicArn": "arn:aws:sns:eu-central-1:123456789012:a&b=c"}, {"TopicArn": None},
    ],
    ids=str,
)  # fmt: skip
def test_nothing_is_visited_for_a_token_or_a_topic_that_amazon_does_not_make(fields: dict[str, object]) -> None:
    makers = Makers()
    with pytest.raises(SignatureInvalid):
        confirm(asking(**fields), keys_of(makers))
    assert makers.asked == []


def test_a_notification_is_no_question_and_an_end_needs_no_visit() -> None:
    makers = Makers()
    assert confirm(asking(Type="Notification"), keys_of(makers)) is None
    ended = confirm(asking(Type="UnsubscribeConfirmation"), keys_of(makers))
    assert ended is not None
    assert makers.asked == []
