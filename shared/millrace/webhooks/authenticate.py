"""Who is calling: the signature of an event, the questions of a provider."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from millrace.http.problems import MethodNotAllowed
from millrace.signatures import (
    ChallengeResponse,
    SecretSource,
    SignatureInvalid,
    Verified,
    WebhookRequest,
    authenticate,
    challenge,
    handshake,
)

if TYPE_CHECKING:
    from millrace.webhooks.endpoint import WebhookEndpoint

#: `GET` is for the questions of some providers, and only where they ask one.
ALLOWED = ("POST",)


def answer_question(
    endpoint: WebhookEndpoint, request: WebhookRequest, secrets: SecretSource, now: int
) -> ChallengeResponse:
    """The answer to a provider's unsigned GET. Raises MethodNotAllowed where that is no question of its provider."""
    scheme = endpoint.scheme
    if request.method != "GET" or scheme is None or scheme.challenge is None or scheme.challenge.signed:
        raise MethodNotAllowed(request.method, ALLOWED)
    moment = datetime.fromtimestamp(now / 1000, UTC)
    tokens = endpoint.webhook.tokens_at(moment)
    references = tokens or endpoint.webhook.secrets_at(moment)

    def ask() -> ChallengeResponse | None:
        found = secrets.resolve(references)
        return handshake(scheme, request, found, now, found if tokens else ())

    try:
        answer = ask()
    except SignatureInvalid as refused:
        if not (refused.reason.may_be_rotation and secrets.refresh(references)):
            raise
        answer = ask()
    if answer is None:
        raise MethodNotAllowed(request.method, ALLOWED)
    return answer


def authenticate_webhook(
    endpoint: WebhookEndpoint, request: WebhookRequest, secrets: SecretSource, now: int
) -> Verified | None:
    """The proof that the provider sent this; None where the definition lets anybody call."""
    if endpoint.scheme is None:
        return None
    references = endpoint.webhook.secrets_at(datetime.fromtimestamp(now / 1000, UTC))
    return authenticate(endpoint.scheme, request, secrets, references, now)


def signed_question(
    endpoint: WebhookEndpoint, request: WebhookRequest, proof: Verified | None
) -> ChallengeResponse | None:
    """The answer to a provider's signed challenge; None for an event."""
    if endpoint.scheme is None or proof is None:
        return None
    return challenge(endpoint.scheme, request, proof)
