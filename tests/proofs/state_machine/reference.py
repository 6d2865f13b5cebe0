"""What the queue promises, as plain Python without a store: the other side of the state machine.

Written from the promises, not from the code: a list of lives, each a message from its acceptance to its end, and
for every operation what has to be true before and after it. Where the queue may choose (which key's turn it is,
which shard is looked at first) the reference says what is allowed, not what happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from millrace.engine.poll import Filter
from millrace.engine.status import MessageStatus
from millrace.model.queue_spec import Jitter, Ordering, QueueSpec


@dataclass(eq=False, slots=True)
class Life:
    """One accepted message."""

    id: str
    number: int  #: in the order of acceptance
    process: int  #: which accepted it
    accepted_at: int
    expires_at: int
    window_until: int
    body: bytes
    key: str
    priority: int
    project: str
    labels: tuple[str, ...]
    due: int = 0
    waited: bool = False  #: it was delayed, or failed: such ones are looked at in the order in which they are due
    attempts: int = 0
    deliveries: int = 0
    version: int = 0
    holder: str = ""  #: the newest claim's token, until it is given up
    until: int = 0
    end: MessageStatus | None = None
    ended_by: int = 0  #: version of the claim that finished it
    result: bytes = b""
    document: tuple[bytes, int] = (b"", 0)
    erased: bool = False  #: it was dead, and its dead letter was purged

    def live(self, now: int) -> bool:
        return bool(self.holder) and self.until > now

    def lost(self, now: int) -> bool:
        return bool(self.holder) and self.until <= now

    def status(self, now: int) -> MessageStatus:
        if self.end:
            return MessageStatus.PURGED if self.erased else self.end
        if self.live(now):
            return MessageStatus.IN_FLIGHT
        return MessageStatus.SCHEDULED if self.due > now else MessageStatus.READY

    def let_go(self) -> None:
        self.holder, self.until = "", 0

    def finish(self, end: MessageStatus, version: int, result: bytes = b"") -> None:
        assert self.end is None, f"{self.id} ends twice"
        self.let_go()
        self.end, self.ended_by, self.result = end, version, result


@dataclass
class Reference:
    """One queue."""

    spec: QueueSpec
    shard_of: Callable[[str, str], int]  #: of key and message id: priority and age count within a shard
    lives: list[Life] = field(default_factory=list)
    newest: dict[str, Life] = field(default_factory=dict)  #: id → the newest of its lives

    # -- who is there -------------------------------------------------------------------------------------------
    def unfinished(self) -> list[Life]:
        """In the order of acceptance."""
        return [life for life in self.lives if life.end is None]

    def ended(self, status: MessageStatus) -> list[Life]:
        return [life for life in self.lives if life.end is status]

    def doomed(self, life: Life, now: int) -> bool:
        """Too old, or out of attempts: it may not start any more."""
        used_up = life.attempts + life.lost(now) >= self.spec.delivery.max_attempts
        return life.end is None and not life.live(now) and (life.expires_at <= now or used_up)

    def to_be_swept(self, now: int) -> list[Life]:
        """What a sweep has to find: everything doomed; where order counts, at least what stands first."""
        queued = self.unfinished()
        match self.spec.ordering:
            case Ordering.FIFO:
                queued = queued[:1]
            case Ordering.PER_KEY:
                queued = self._first_of_keys(queued)
        return [life for life in queued if self.doomed(life, now)]

    def repeat_of(self, message_id: str, now: int) -> Life | None:
        """One key, one message: within its window, and for as long as it has not ended."""
        life = self.newest.get(message_id)
        return life if life and (life.end is None or now < life.window_until) else None

    def accept(self, life: Life) -> None:
        assert len(self.unfinished()) < self.spec.retention.max_depth, "more than max_depth unfinished messages"
        assert life.id not in self.newest or self.newest[life.id].end, f"{life.id} is accepted while it is queued"
        self.lives.append(life)
        self.newest[life.id] = life

    # -- who may start ------------------------------------------------------------------------------------------
    def startable(self, now: int, only: Filter) -> list[Life]:
        """Who may start now, in the order of acceptance."""

        def free(life: Life) -> bool:
            return not life.live(now) and not self.doomed(life, now) and life.due <= now and fits(only, life)

        queued = self.unfinished()
        match self.spec.ordering:
            case Ordering.FIFO:
                run = next((n for n, life in enumerate(queued) if not free(life)), len(queued))
                return queued[:run]
            case Ordering.PER_KEY:
                return [life for life in self._first_of_keys(queued) if free(life)]
            case Ordering.UNORDERED:
                return [life for life in queued if free(life)]

    def _first_of_keys(self, queued: list[Life]) -> list[Life]:
        """Those that hold their key's places."""
        met: Counter[str] = Counter()
        firsts = []
        for life in queued:
            met[life.key] += 1
            if met[life.key] <= (self.spec.concurrency_per_key or 1):
                firsts.append(life)
        return firsts

    def before(self, one: Life, other: Life) -> bool:
        """`one` has to start before `other`, where both may."""
        if self.spec.ordering is Ordering.PER_KEY or self._shard(one) != self._shard(other):
            return False
        if one.priority != other.priority:
            return one.priority > other.priority
        if self.spec.fair and (one.key != other.key or one.waited != other.waited):
            # Keys take turns: a claim looks at as many keys as it wants messages, and at what is due beside them.
            return False
        if one.accepted_at != other.accepted_at:
            return one.accepted_at < other.accepted_at
        return one.process == other.process and one.number < other.number

    def _shard(self, life: Life) -> int:
        return self.shard_of(life.key, life.id)

    def check_started(self, started: Sequence[Life], limit: int, buried: int, now: int, only: Filter) -> None:
        """Order and progress: the best ones were started, and as many as there was room for."""
        startable = self.startable(now, only)
        assert len(set(started)) == len(started) <= limit
        for life in started:
            assert life in startable, f"{life.id} may not start: {life}"
        assert len(started) + buried >= min(limit, len(startable)), f"{startable} were left though {limit} were wanted"
        if self.spec.ordering is Ordering.FIFO:
            assert list(started) == startable[: len(started)], "not from the head, or not in order"
            return
        left = [life for life in startable if life not in started and not self._overlooked(life, limit, now)]
        for life in started:
            assert not any(self.before(other, life) for other in left), f"{life.id} was started before its turn"
        for later, life in enumerate(started):
            assert not any(self.before(other, life) for other in started[later + 1 :]), "not best first"
        if self.spec.fair:
            self._check_turns(started, left)

    def _overlooked(self, life: Life, limit: int, now: int) -> bool:
        """Among very many due retries a claim looks only at as many as it wants."""
        due = [other for other in self.unfinished() if other.waited and other.due <= now]
        return life.waited and len(due) > limit

    def _check_turns(self, started: Sequence[Life], left: Sequence[Life]) -> None:
        taken = Counter((life.priority, life.key) for life in started)
        for life in left:
            for (priority, key), count in taken.items():
                if priority == life.priority and key != life.key and self.spec.shards == 1:
                    assert count <= taken[priority, life.key] + 1, f"{key} took {count} turns before {life.key}"

    # -- what a claim does --------------------------------------------------------------------------------------
    def claim(self, life: Life, now: int, lease_ms: int, token: str) -> None:
        assert not life.live(now), f"two live claims on {life.id}"
        life.attempts += life.lost(now)
        life.version += 1
        life.deliveries += 1
        life.holder, life.until = token, now + lease_ms

    def fail(self, life: Life, now: int) -> bool:
        """A failed run; whether another one is allowed."""
        life.attempts += 1
        if life.attempts >= self.spec.delivery.max_attempts:
            life.finish(MessageStatus.DEAD, life.version)
            return False
        return True

    def backoff(self, life: Life, now: int) -> tuple[int, int]:
        """The earliest and the latest time at which a failed message may be due again."""
        delivery = self.spec.delivery
        cap = min(delivery.initial_backoff_ms * 2 ** (life.attempts - 1), delivery.max_backoff_ms)
        return (now + cap if delivery.jitter is Jitter.NONE else now), now + cap

    def wait(self, life: Life, due: int) -> None:
        """Never longer than it is kept: a message that grew too old while waiting has to be met."""
        life.let_go()
        life.due, life.waited = min(due, life.expires_at), True

    def next_start(self, now: int, only: Filter) -> int | None:
        """When something that waits or is held may start, at the earliest; None where nothing is in sight."""
        heads = self.unfinished()
        if self.spec.ordering is Ordering.FIFO:
            heads = heads[:1]
        elif self.spec.ordering is Ordering.PER_KEY:
            heads = self._first_of_keys(heads)
        times = [life.until if life.live(now) else life.due for life in heads if fits(only, life)]
        return min((time for time in times if time > now), default=None)


def fits(only: Filter, life: Life) -> bool:
    in_project = only.project in (None, life.project)
    labelled = set(only.labels) <= set(life.labels)
    return in_project and labelled and (only.max_priority is None or life.priority <= only.max_priority)
