"""What a queue promises: its limits, order and retry timetable.

A `QueueSpec` is plain data. It is compiled ahead of deploy from the definitions in `infra/` and loaded as JSON,
so nothing here parses text.
"""

from __future__ import annotations

import re
from enum import StrEnum

from millrace.model.values import dataclass

TENANT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")
#: Whose queues are meant where nobody says; a deployment may name another (`DefaultTenant`).
DEFAULT_TENANT = "default"
#: Stands for the tenant in the name of a queue's KMS key.
TENANT_MARK = "{tenant}"
#: Also of a webhook and of an app.
QUEUE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}", re.ASCII)
#: Webhooks lie below this; so no tenant is called so.
HOOK_PREFIX = "hook"
#: Names for priorities; a number from 0 to 9999 serves as well. Higher runs first.
PRIORITIES = {"low": 0, "normal": 50, "high": 100, "critical": 200}
MAX_PRIORITY = 9999
#: Days for which the bucket keeps large bodies, unless the deployment says otherwise.
BODY_DAYS = 60
WEEK_SECONDS = 7 * 86_400

#: Unless a queue says otherwise, and the most where functions read a body whole; others can take uploads.
MAX_BODY_BYTES = 6 * 1024 * 1024


class Ordering(StrEnum):
    """Which message of a queue may start next."""

    UNORDERED = "unordered"  #: highest priority, then oldest
    FIFO = "fifo"  #: only the head of the queue
    PER_KEY = "per_key"  #: only the first of each key

    @property
    def ordered(self) -> bool:
        return self is not Ordering.UNORDERED


class Jitter(StrEnum):
    """How a retry delay is drawn from its cap."""

    FULL = "full_jitter"  #: anywhere between 0 and the cap, so that a thousand failures do not return as one wave
    NONE = "none"  #: the cap itself: 1 s, 2 s, 4 s, 8 s, …


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a message is tried, and how long it waits in between."""

    max_attempts: int = 4  #: runs in all, the first included
    initial_backoff_ms: int = 500
    max_backoff_ms: int = 30_000
    jitter: Jitter = Jitter.FULL


@dataclass(frozen=True, slots=True)
class Retention:
    """How long and how much a queue keeps."""

    max_age_seconds: int = 4 * 86_400  #: an older message becomes a dead letter, reason `expired`
    max_depth: int = 1_000_000  #: never more unfinished messages than this
    dead_letter_seconds: int = 14 * 86_400  #: how long a dead letter can be inspected and replayed

    @property
    def body_days(self) -> int:
        """For so many days a large body must be kept: a week longer than anybody may ask for it."""
        return -(-(self.max_age_seconds + self.dead_letter_seconds + WEEK_SECONDS) // 86_400)


@dataclass(frozen=True, slots=True)
class Idempotency:
    """How long a repeated key gives the first message's answer."""

    window_seconds: int = 86_400
    cache_result: bool = True  #: keep the result for repeats; costs one write unit a message


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """One queue's definition, as the engine needs it."""

    name: str
    ordering: Ordering = Ordering.UNORDERED
    shards: int = 1  #: partitions the queue is spread over; `fifo` has one
    fair: bool = False  #: unordered with a key: keys take turns, so that a noisy one cannot starve the others
    priority: int = PRIORITIES["normal"]
    project: str = ""
    labels: tuple[str, ...] = ()
    retention: Retention = Retention()
    delivery: RetryPolicy = RetryPolicy()
    idempotency: Idempotency = Idempotency()
    lease_seconds: float = 30.0  #: a claim not extended within this is taken over
    execution_timeout_seconds: float = 300.0  #: hard limit of one run, however often its claim was extended
    concurrency_per_key: int | None = None  #: `per_key`: of each key so many in hand at once; None: one, by order alone
    max_concurrency: int = 10  #: runs at the same time, over all workers of the queue
    rate_per_second: float | None = None  #: starts per second, over all workers of the queue
    max_body_bytes: int = MAX_BODY_BYTES
    dictionary: bool = True  #: bodies are packed with what many of them share, which is kept for years
    encrypt: str = ""  #: KMS key of bodies, results and states; `{tenant}` in it stands for the tenant

    @property
    def keyed(self) -> bool:
        """Entries of one key lie together, so that a poll can step from key to key."""
        return self.fair or self.ordering is Ordering.PER_KEY

    @property
    def shares_dictionary(self) -> bool:
        """A dictionary is made of bodies and stored as it is: an encrypted queue has none."""
        return self.dictionary and not self.encrypt

    def key_of(self, tenant: str) -> str:
        """The KMS key of a tenant's messages; empty where they are not encrypted."""
        return self.encrypt.replace(TENANT_MARK, tenant)

    @property
    def lease_ms(self) -> int:
        return int(self.lease_seconds * 1000)

    def message_ttl(self, received_at: int) -> int:
        """When DynamoDB may forget a message, in seconds: a week past retention and window.

        TTL cleans up after the queue and must never run ahead of it.
        """
        keep = max(self.retention.max_age_seconds, self.idempotency.window_seconds)
        return received_at // 1000 + keep + WEEK_SECONDS

    def location_ttl(self, received_at: int) -> int:
        """What says that a message moved or died must outlive the message, or a dead one would look done."""
        return self.message_ttl(received_at) + self.retention.dead_letter_seconds + WEEK_SECONDS
