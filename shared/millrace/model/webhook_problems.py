"""Why a webhook cannot verify what it is sent: a secret that is not set, a store that does not answer.

The ingress keeps the newest one of each webhook for operators to see. It names references and settings, never a value.
"""

from __future__ import annotations

from millrace.model.clock import MINUTE
from millrace.model.values import dataclass

#: A problem that no call has met for so long is no longer shown.
FORGOTTEN_MS = 60 * MINUTE


@dataclass(frozen=True, slots=True)
class WebhookProblem:
    """What keeps one webhook from verifying, for every tenant alike: secrets belong to the deployment."""

    webhook: str
    problem: str
    since: int  #: when a call first met it
    last: int  #: when one met it last, give or take a minute

    @property
    def ttl(self) -> int:
        return (self.last + FORGOTTEN_MS) // 1000

    def counts_at(self, now: int) -> bool:
        """Whether it still says something; DynamoDB forgets it later than this."""
        return now - self.last < FORGOTTEN_MS
