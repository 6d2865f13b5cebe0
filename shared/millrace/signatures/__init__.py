"""Webhook signatures: who sent a request, proven over the exact bytes received.

    SecretSource ──► authenticate(scheme, request, …) ──► Verified ──► challenge · idempotency_key · retained_headers
    presets ─► Scheme ──┘

Importing this costs the standard library only; Powertools and cryptography are imported by the references and keys
that need them.
"""

from millrace.signatures.challenges import ChallengeResponse, challenge, handshake
from millrace.signatures.errors import ConfigurationMissing, RefusalReason, SecretUnavailable, SignatureInvalid
from millrace.signatures.keys import Secret
from millrace.signatures.presets import PRESETS, for_header, generic, preset, scheme_from
from millrace.signatures.published import PublishedKeys
from millrace.signatures.request import Headers, WebhookRequest, retained_headers
from millrace.signatures.scheme import ChallengeKind, Facts, Scheme
from millrace.signatures.secrets import SecretSource
from millrace.signatures.verification import Verified, authenticate, idempotency_key, verify

__all__ = [
    "PRESETS",
    "ChallengeKind",
    "ChallengeResponse",
    "ConfigurationMissing",
    "Facts",
    "Headers",
    "PublishedKeys",
    "RefusalReason",
    "Scheme",
    "Secret",
    "SecretSource",
    "SecretUnavailable",
    "SignatureInvalid",
    "Verified",
    "WebhookRequest",
    "authenticate",
    "challenge",
    "for_header",
    "generic",
    "handshake",
    "idempotency_key",
    "preset",
    "retained_headers",
    "scheme_from",
    "verify",
]
