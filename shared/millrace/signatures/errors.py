"""What this package refuses, under the project's one tree of errors.

    MillraceError
    ├── SignatureInvalid          the request is not proven to come from its provider; nothing may be done with it
    └── ConfigurationMissing      no usable secret or a scheme that cannot work: our fault, never the sender's
        └── SecretUnavailable     the place that keeps the secret did not answer; a later try may succeed
            └── KeysUnavailable   nor did the place where a provider publishes its keys

The text of each is safe to send to anyone. What an operator needs (`reason`, `problem`) is an attribute, meant for
metrics and logs, and never holds a secret or a signature.
"""

from __future__ import annotations

from enum import StrEnum

from millrace.model.errors import MillraceError


class RefusalReason(StrEnum):
    """Why a request was refused. For metrics and logs, never for the answer."""

    MISSING_HEADER = "missing_header"
    AMBIGUOUS_HEADER = "ambiguous_header"  #: sent twice where the provider sends one
    MALFORMED = "malformed"
    TIMESTAMP_OUTSIDE_TOLERANCE = "timestamp_outside_tolerance"
    MISMATCH = "mismatch"
    SECRET_NOT_LIVE = "secret_not_live"  # noqa: S105  #: right signature, but of a secret outside its window
    CHALLENGE_REFUSED = "challenge_refused"

    @property
    def may_be_rotation(self) -> bool:
        """A newer copy of the secret could turn this refusal into an acceptance."""
        return self in (RefusalReason.MISMATCH, RefusalReason.SECRET_NOT_LIVE, RefusalReason.CHALLENGE_REFUSED)


class SignatureInvalid(MillraceError):
    """The request is not proven to come from its provider."""

    code = "signature_invalid"

    def __init__(self, reason: RefusalReason) -> None:
        self.reason = reason
        super().__init__("The request could not be authenticated.")


class ConfigurationMissing(MillraceError):
    """Nothing can be verified until an operator acts, so everything is refused."""

    code = "configuration_missing"

    def __init__(self, problem: str) -> None:
        self.problem = problem  #: for operators: names a reference or a setting, never a value
        super().__init__("This webhook cannot verify requests at the moment.")


class SecretUnavailable(ConfigurationMissing):
    """The place that keeps the secret did not answer."""

    code = "secret_unavailable"


class KeysUnavailable(SecretUnavailable):
    """A provider's published keys could not be had, so nothing is known about the request."""
