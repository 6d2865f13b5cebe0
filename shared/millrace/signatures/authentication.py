"""Verification with secrets that may have been rotated since they were read."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.signatures.errors import ConfigurationMissing, SignatureInvalid
from millrace.signatures.request import WebhookRequest
from millrace.signatures.scheme import Scheme
from millrace.signatures.secrets import SecretSource
from millrace.signatures.verification import Verified, verify


def authenticate(
    scheme: Scheme, request: WebhookRequest, source: SecretSource, references: Sequence[str], now_ms: int
) -> Verified:
    """Verify with the secrets behind these references; where none fits, once more if they turn out to be newer.

    Raises what `verify` and `SecretSource.resolve` raise. Costs a call to the store only for a first use, an aged
    copy, or a mismatch that is the first within a minute.
    """
    secrets = source.resolve(references)
    try:
        return verify(scheme, request, secrets, now_ms)
    except (SignatureInvalid, ConfigurationMissing) as refused:
        may_be_rotation = not isinstance(refused, SignatureInvalid) or refused.reason.may_be_rotation
        if not (may_be_rotation and source.refresh(references)):
            raise
    return verify(scheme, request, source.resolve(references), now_ms)
