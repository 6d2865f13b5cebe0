"""What the queue needs of a store: atomic writes with a condition, and reads that see them.

Every method is one step: it happens completely or not at all (for a list: each element by itself), and nothing else
happens in between. The protocol above it is right when these steps are; the conformance suite in
`tests/stores` is the arbiter of every implementation.

A write that is repeated because its answer was lost must be recognised as its own: each carries a nonce or token
minted by the caller, and "it already holds mine" is success.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from millrace.model.cursor import Page
from millrace.model.dictionary import StoredDictionary
from millrace.model.errors import StoreUnavailable
from millrace.model.message import (
    DeadLetter,
    Entry,
    Message,
    MessageLocation,
    Place,
    Records,
    Result,
    WorkflowState,
)
from millrace.model.queue_samples import QueueSample
from millrace.model.queue_state import BreakerState, CounterDelta, CreditRequest, QueueState, Slot
from millrace.model.transaction import AppWrite
from millrace.model.values import dataclass
from millrace.model.webhook_problems import WebhookProblem
from millrace.stores.scanned import ScanFilter, ScannedPage

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Applied:
    """The write happened (now, or by an earlier try of the same call)."""


@dataclass(frozen=True, slots=True)
class Refused(Generic[T]):
    """The condition did not hold; nothing was changed."""

    current: T | None  #: the item as it stands, where there is one


@dataclass(frozen=True, slots=True)
class Unknown:
    """No answer within the deadline: it may have happened or not."""

    cause: StoreUnavailable


@dataclass(frozen=True, slots=True)
class Full:
    """There is no room for so many credits."""

    current: QueueState


@dataclass(frozen=True, slots=True)
class EndStep:
    """In a transaction: the entry goes, where it holds its token, and its result is kept."""

    entry: Entry
    result: Result  #: of this very claim: what tells an ending of ours from somebody else's


@dataclass(frozen=True, slots=True)
class AcceptStep:
    """In a transaction: a message is committed with its entry (none for one that the filter left out)."""

    message: Message
    entry: Entry | None
    replaces: str = ""  #: nonce of the message that it takes the place of; empty where nothing may be there


TransactStep = EndStep | AcceptStep


@dataclass(frozen=True, slots=True)
class StepRefused:
    """A transaction did not happen: the condition of one of the queue's own steps did not hold."""

    position: int  #: among the steps
    entry: Entry | None = None  #: of an `EndStep`, as it stands
    message: Message | None = None  #: in the place of an `AcceptStep`'s


@dataclass(frozen=True, slots=True)
class WritesRefused:
    """A transaction did not happen: conditions of the app's own writes did not hold."""

    reasons: Mapping[int, str]  #: position among the writes → why


@dataclass(frozen=True, slots=True)
class TooLate:
    """A transaction was not sent: its time was over. Nothing was written, by no try of the same call."""


@dataclass(frozen=True, slots=True)
class Erasure:
    """All that is written when a message is erased."""

    husk: Message  #: takes the place of the message with the same nonce
    trace: MessageLocation | None = None  #: takes the place of its location
    seal: Result | None = None  #: takes the place of its result, and keeps a late one out; without it the result goes
    entry: Entry | None = None  #: goes, where it holds its token
    idle_at: int = 0  #: the entry goes only where nobody holds it at this time; 0 for whoever does
    result: bool = True  #: there may be a result
    workflow_state: bool = True  #: there may be a workflow state


APPLIED = Applied()
WriteResult = Applied | Refused[T] | Unknown
TransactResult = Applied | StepRefused | WritesRefused | TooLate | Unknown


class Store(Protocol):
    """The queue table and the dead-letter table."""

    # -- enqueue ------------------------------------------------------------------------------------------------
    def put_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        """Insert each entry where there is nothing yet."""

    def put_messages(self, messages: Sequence[Message]) -> list[WriteResult[Message]]:
        """Commit each message under its id; refused with the message that is there already."""

    def replace_message(self, message: Message, old_nonce: str) -> WriteResult[Message]:
        """Commit a message in place of a finished one, where that still has `old_nonce` and its own entry is there.

        Both in one step: a sender that was paused for long may find its entry removed. Refused with the message that
        is there, or with None where the entry is not.
        """

    def drop_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        """Take back entries just written, where nobody has claimed them."""

    def withdraw_entry(self, entry: Entry, marker: Message) -> WriteResult[Entry]:
        """Remove an entry whose message was never committed, by its token, and keep it from being committed later.

        Both in one step: `marker` takes the message's place where nothing or another marker is. Refused where a
        message is.
        """

    # -- claim --------------------------------------------------------------------------------------------------
    def read_lane(self, pk: str, after: str, upto: str, limit: int) -> Page[Entry]:
        """Entries of one partition with `after` < sk <= `upto`, in order, strongly consistent."""

    def get_entry(self, place: Place) -> Entry | None: ...

    def get_messages(self, ids: Sequence[str]) -> dict[str, Message]:
        """The messages that exist, strongly consistent. A withdrawn entry's marker is none."""

    def claim_entries(self, claimed: Sequence[Entry], now: int) -> list[WriteResult[Entry]]:
        """Write each entry's new claim where its version is one less and no live claim is on it."""

    # -- finish: each carries the claim's token -----------------------------------------------------------------
    def end_entries(self, entries: Sequence[Entry]) -> list[WriteResult[Entry]]:
        """Delete each entry where the token matches: the commit of "done"."""

    def end_together(self, entries: Sequence[Entry], request_token: str) -> WriteResult[Entry]:
        """Delete all of these entries, or none where the token of one does not match, in one step. Up to 100.

        A refusal does not say whose it was. A repeat under the same request token, within ten minutes, is one call.
        """

    def hold_entries(self, entries: Sequence[Entry], tokens: Sequence[str]) -> list[WriteResult[Entry]]:
        """Write each entry's claim fields and `due` in place, where the token matches: extend, release, snooze."""

    def move_entry(self, old: Entry, new: Entry, location: MessageLocation) -> WriteResult[Entry]:
        """Move the entry (or change it in place) and write where it is, in one step, by `old`'s token."""

    def bury_entry(self, old: Entry, location: MessageLocation, dead_letter: DeadLetter | None) -> WriteResult[Entry]:
        """Take the entry out, keep its dead letter (none for a purge) and say so, in one step, by `old`'s token."""

    def erase_message(self, erasure: Erasure) -> WriteResult[Entry]:
        """Put the husk in the place of its message, with all that belongs to it, in one step; its entry goes with it.

        Refused where the message is another one, with the entry where that is not as it was read.
        """

    def drop_records(self, message_id: str, nonce: str) -> None:
        """Delete what is kept of this acceptance under an id that another message has, or none: each by itself."""

    def put_results(self, results: Sequence[Result]) -> None:
        """Keep what finished messages gave, except over their seal. A lost one costs a snapshot, never the truth."""

    def put_workflow_state(self, entry: Entry, workflow_state: WorkflowState, now: int) -> WriteResult[WorkflowState]:
        """Write the workflow state where the claim is live and the version one less, in one step.

        A state with another nonce counts as none.
        Refused with the state as it stands (version 0 where there is none), or with None when the claim is stale.
        """

    # -- transactions with an app's own writes -----------------------------------------------------------------
    def transact(
        self,
        steps: Sequence[TransactStep],
        writes: Sequence[AppWrite],
        request_token: str,
        in_time: Callable[[], bool] = lambda: True,
    ) -> TransactResult:
        """The queue's steps and the app's writes in one step: all of them happen, or none.

        One that had happened by an earlier try is applied: its result or its message is there, and its request token
        is remembered for ten minutes, which tells also of one that has no steps. `in_time` is asked
        right before it is sent. A refusal by a step goes before one by a write. Raises InvalidTransaction, where
        nothing was written either.
        """

    # -- one message by id --------------------------------------------------------------------------------------
    def get_records(self, message_id: str) -> Records: ...

    def get_location(self, message_id: str) -> MessageLocation | None: ...

    def get_locations(self, ids: Sequence[str]) -> dict[str, MessageLocation]:
        """Those of these messages that have any."""

    def get_entries(self, places: Sequence[Place]) -> dict[Place, Entry]:
        """The entries that are there."""

    def scan_messages(self, tenant: str, after: str, limit: int, only: ScanFilter = ...) -> ScannedPage:
        """A tenant's messages, in no order, out of so many items of the whole table: for what nothing else leads to.

        `after` is a page's `next` or a message's `position`. What is there from the first page to the last is met once;
        what comes or goes meanwhile may be. What never was a message (a late commit's marker) is not.
        """

    # -- counters ----------------------------------------------------------------------------------------------
    def take_credits(self, tenant: str, queue: str, take: CreditRequest) -> QueueState | Full:
        """Add to the depth where it stays within `max_depth`; the state afterwards, or the one that refused."""

    def settle(self, tenant: str, queue: str, delta: CounterDelta) -> QueueState | None:
        """Count endings. Credits count only under the delta's epoch; None when the answer was lost (not retried)."""

    def get_queue_state(self, tenant: str, queue: str) -> QueueState: ...

    def take_numbers(self, tenant: str, queue: str, counts: Mapping[int, int]) -> dict[int, int]:
        """Order numbers for an ordered queue: for each shard the first of so many, above all given out before.

        A shard is missing where no answer came: what it was to give is lost, which leaves a gap and nothing else.
        """

    def list_all_queue_states(self) -> list[QueueState]:
        """Every queue of every tenant that is listed, in order: for the sweep."""

    def register(self, tenant: str, queue: str) -> None:
        """List a queue and note so in its state, in one step. Nothing changes where it is listed."""

    def unregister(self, seen: QueueState) -> bool:
        """Take a queue off the list and note so, in one step, where it is empty and nothing was counted since `seen`.

        Whether this call surely did.
        """

    def set_paused(self, tenant: str, queue: str, at: int, by: str) -> QueueState:
        """Pause (`at` > 0) or resume (`at` = 0)."""

    def repair_depth(self, seen: QueueState, surplus: int, now: int) -> bool:
        """Lower the depth by `surplus` and open a new epoch, where nothing was given back since `seen`."""

    def set_pace(self, seen: QueueState, pace_at: int) -> bool:
        """Move the rate limit's clock on, where it still stands as `seen`."""

    def set_breaker(self, seen: QueueState, target: str, breaker: BreakerState | None) -> bool:
        """Open a target's circuit breaker, move its next probe on, or close it (None), where it stands as `seen`."""

    def take_slot(self, tenant: str, queue: str, slot: Slot, now: int) -> bool:
        """Hold one of the queue's places for workers, where it is free, has run out, or is held by this token."""

    def list_slots(self, tenant: str, queue: str) -> list[Slot]:
        """The queue's slots that were taken and not freed, in order, those that have run out too: one query."""

    def free_slot(self, tenant: str, queue: str, slot: Slot) -> None:
        """Give the place up, where it is still held by this token."""

    def get_sweep_position(self, name: str) -> str:
        """Where the last round of this name over all queues stopped; empty where it came to its end."""

    def set_sweep_position(self, name: str, position: str) -> None: ...

    def put_sample(self, tenant: str, queue: str, sample: QueueSample) -> None:
        """Keep what a queue's numbers were, in place of any other of the same five minutes: one write."""

    def read_samples(self, tenant: str, queue: str, since: int) -> list[QueueSample]:
        """The samples from `since` on that are still kept, in order."""

    # -- dictionaries ------------------------------------------------------------------------------------------
    def get_dictionary(self, tenant: str, queue: str, name: str) -> StoredDictionary | None:
        """A dictionary that bodies of this queue are packed with, strongly consistent."""

    def put_dictionary(self, tenant: str, queue: str, dictionary: StoredDictionary) -> None:
        """Keep a dictionary under its name; one that is there already has the same content."""

    def set_dictionary(self, seen: QueueState, name: str, now: int) -> bool:
        """Name the dictionary to pack with (empty for none), where the queue was not reviewed since `seen`.

        When it was is kept to the minute.
        """

    def get_body_sample(self, tenant: str, queue: str) -> tuple[str, ...]:
        """Ids of messages that were gathered for the next review."""

    def put_body_sample(self, tenant: str, queue: str, ids: Sequence[str], now: int) -> None:
        """Keep these ids in place of those that were gathered; for a month."""

    # -- webhooks ----------------------------------------------------------------------------------------------
    def put_webhook_problem(self, problem: WebhookProblem) -> None:
        """Keep why a webhook cannot verify, in place of what was kept about it."""

    def delete_webhook_problem(self, webhook: str) -> None: ...

    def read_webhook_problems(self) -> list[WebhookProblem]:
        """What is kept, in the order of the webhooks' names; some of it may be too old to count."""

    # -- dead letters -------------------------------------------------------------------------------------------
    def read_dead_letters(
        self, tenant: str, queue: str, after: str, upto: str, limit: int, *, newest_first: bool = False
    ) -> Page[DeadLetter]: ...

    def get_dead_letter(self, tenant: str, queue: str, sk: str) -> DeadLetter | None: ...

    def mark_replayed(self, dead_letter: DeadLetter) -> bool:
        """Write its replay fields where it is still there; whether this is the first replay that is noted on it."""

    def delete_dead_letter(self, dead_letter: DeadLetter) -> bool:
        """Take it out, where it was not replayed since it was read; whether this call did."""
