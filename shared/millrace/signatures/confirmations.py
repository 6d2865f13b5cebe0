"""Confirms a subscription of Amazon SNS, which asks by a signed message with a token.

The message is proven, and of a topic that the webhook's secret names: the operator wants its messages. The address is
not the one that the message gives, but written here of the region, the topic and the token.
"""

from __future__ import annotations

import re
from urllib.parse import quote

from millrace.signatures.challenges import ChallengeResponse
from millrace.signatures.errors import RefusalReason, SignatureInvalid
from millrace.signatures.published import KeyAddress, PublishedKeys
from millrace.signatures.request import WebhookRequest

_TOKEN = re.compile(r"[A-Za-z0-9]{1,512}", re.ASCII)
_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:(?P<region>[a-z0-9-]{3,32}):\d{12}:[A-Za-z0-9_.-]{1,256}", re.ASCII)
_DONE = ChallengeResponse(200, "text/plain; charset=utf-8", b"")


def confirm(request: WebhookRequest, keys: PublishedKeys | None) -> ChallengeResponse | None:
    """Confirm what a verified message asks for; None for a notification.

    That the subscription ended needs no answer but the receipt. Raises SignatureInvalid for a token that Amazon does
    not make, and KeysUnavailable where Amazon does not answer: it asks again.
    """
    document = request.object_document()
    if document.get("Type") == "UnsubscribeConfirmation":
        return _DONE
    if document.get("Type") != "SubscriptionConfirmation":
        return None
    topic, token = _TOPIC.fullmatch(str(document.get("TopicArn"))), document.get("Token")
    if keys is None or topic is None or not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise SignatureInvalid(RefusalReason.CHALLENGE_REFUSED)
    host = f"sns.{topic['region']}.amazonaws.com{'.cn' if topic['region'].startswith('cn-') else ''}"
    query = f"Action=ConfirmSubscription&TopicArn={quote(topic[0], safe='')}&Token={token}"
    keys.visit(KeyAddress(f"https://{host}/?{query}"))
    return _DONE
