"""Webhook signatures: who sent a request, proven over the exact bytes received.

    SecretSource ──► authenticate(scheme, request, …) ──► Verified ──► challenge · idempotency_key · retained_headers
    presets ─► Scheme ──┘

Importing this costs the standard library only; Powertools and cryptography are imported by the references and keys
that need them.
"""

from .authentication import authenticate
from .challenges import Answer, challenge, handshake
from .errors import ConfigurationMissing, Reason, SecretUnavailable, SignatureInvalid
from .idempotency import idempotency_key
from .keys import Secret
from .presets import PRESETS, for_header, generic, preset, scheme_from
from .request import Headers, WebhookRequest
from .retained import retained_headers
from .scheme import ChallengeKind, Facts, Scheme
from .secrets import SecretSource
from .verification import Verified, verify

__all__ = [
    "PRESETS",
    "Answer",
    "ChallengeKind",
    "ConfigurationMissing",
    "Facts",
    "Headers",
    "Reason",
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
