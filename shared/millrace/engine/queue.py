"""A queue at work: its definition, its store, and the time and chance that its verbs use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from millrace.engine.bodies import Bodies
from millrace.engine.counters import PendingCounters
from millrace.engine.credits import Admission, Credits
from millrace.engine.data_keys import DataKeys
from millrace.engine.dictionaries import Dictionaries
from millrace.engine.encryption import Encryption
from millrace.engine.uploads import UploadedBodies
from millrace.history.log import HistoryEvent, HistoryLog
from millrace.model.body import Blobs
from millrace.model.clock import Chance, Clock, Entropy, system_chance, system_clock, system_entropy
from millrace.model.encryption import KeyService
from millrace.model.errors import InvalidField
from millrace.model.ids import Orders
from millrace.model.keys import partition
from millrace.model.message import Body, Entry, Message
from millrace.model.queue_spec import QUEUE_NAME, TENANT, QueueSpec
from millrace.model.queue_state import QueueState
from millrace.model.uploads import Uploads
from millrace.model.values import dataclass
from millrace.stores.interface import Store

#: How long a read of the queue's state serves verbs for which a second old is new enough.
CACHED_STATE_MS = 1_000


class Runtime:
    """What all queues of one process share: store, blobs, clock, randomness, credits."""

    def __init__(
        self,
        store: Store,
        blobs: Blobs,
        *,
        clock: Clock = system_clock,
        entropy: Entropy = system_entropy,
        chance: Chance = system_chance,
        history: HistoryLog | None = None,
        uploads: Uploads | None = None,
        keys: KeyService | None = None,
    ) -> None:
        self.store = store
        self.blobs = blobs
        self.dictionaries = Dictionaries(store, clock)
        self.encryption = Encryption(DataKeys(keys, clock), entropy)
        self.bodies = Bodies(blobs, self.dictionaries, self.encryption)
        self.uploads = UploadedBodies(uploads)
        self.clock = clock
        self.entropy = entropy
        self.chance = chance
        self.history = history  #: None where nobody records what happens to messages
        self.orders = Orders(clock, entropy)
        self.credits = Credits(store, clock, chance)
        self.pending_counters = PendingCounters()

    def queue(self, tenant: str, spec: QueueSpec) -> Queue:
        """The queue of one tenant."""
        if not TENANT.fullmatch(tenant):
            raise InvalidField("tenant", f"{tenant!r} is malformed", "1 to 48 letters, digits, '_' and '-'")
        if not QUEUE_NAME.fullmatch(spec.name):
            raise InvalidField(
                "queue", f"{spec.name!r} is malformed", "a letter, then up to 63 letters, digits and '_'"
            )
        return Queue(tenant, spec, self)


@dataclass(slots=True)
class CachedState:
    state: QueueState | None = None
    at: int = 0


@dataclass(slots=True)
class PollMemory:
    """What this process's polls of a queue remember from one to the next. Losing it costs reads, nothing else."""

    laps: dict[tuple[str, str], str] = field(default_factory=dict)  #: where the last way through the keys stopped
    resume: dict[Any, str] = field(default_factory=dict)  #: where a poll that reached its bound stopped
    silent: dict[str, int] = field(default_factory=dict)  #: partition that did not answer → when to ask it again
    held: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)  #: head that others hold, until when
    rivals: dict[str, dict[str, int]] = field(default_factory=dict)  #: partition → who held claims there, and when
    lost_at: dict[str, int] = field(default_factory=dict)  #: partition → when a claim was last lost to somebody else
    full: dict[tuple[str, str], int] = field(default_factory=dict)  #: key whose places others took → when to ask again


@dataclass(frozen=True, slots=True)
class Queue:
    """One tenant's queue. The verbs of the library are functions that take it first."""

    tenant: str
    spec: QueueSpec
    runtime: Runtime
    poll_memory: PollMemory = field(default_factory=PollMemory, repr=False, compare=False)
    _cached: CachedState = field(default_factory=CachedState, repr=False, compare=False)
    store: Store = field(init=False, repr=False, compare=False)  #: the runtime's
    now: Clock = field(init=False, repr=False, compare=False)  #: the runtime's

    def __post_init__(self) -> None:
        object.__setattr__(self, "store", self.runtime.store)
        object.__setattr__(self, "now", self.runtime.clock)

    @property
    def key(self) -> str:
        """The KMS key of what it keeps of messages; empty where that is not encrypted."""
        return self.spec.key_of(self.tenant)

    def partitions(self) -> list[str]:
        return [partition(self.tenant, self.spec.name, shard) for shard in range(self.spec.shards)]

    def state(self, *, fresh: bool = False) -> QueueState:
        """The queue's counters, up to a second old: half a read unit."""
        now = self.now()
        cached = self._cached
        if fresh or cached.state is None or now - cached.at >= CACHED_STATE_MS:
            cached.state, cached.at = self.store.get_queue_state(self.tenant, self.spec.name), now
        return cached.state

    def cache_state(self, state: QueueState) -> None:
        """Remember a state that came with another answer, so that it need not be read."""
        self._cached.state, self._cached.at = state, self.now()

    def encode(self, data: bytes, admission: Admission) -> Body:
        """What would be stored of a body that is admitted, packed with the queue's dictionary where it has one."""
        dictionary = admission.dictionary if self.spec.shares_dictionary else ""
        return self.runtime.bodies.encode(data, self.tenant, self.spec.name, dictionary)

    def record(self, event: HistoryEvent, entries: Sequence[Entry], at: int | None = None, due: int = 0) -> None:
        """Record what happened to claimed entries, where histories are kept; `due` where they were put off."""
        if entries and self.runtime.history is not None:
            moment = self.now() if at is None else at
            self.runtime.history.happened(event, moment, self.tenant, self.spec.name, entries, due)

    def record_accepted(self, messages: Sequence[tuple[Message, Entry | None]]) -> None:
        """Record that messages were accepted, where histories are kept."""
        if messages and self.runtime.history is not None:
            self.runtime.history.accepted(self.tenant, self.spec, self.now(), messages)
