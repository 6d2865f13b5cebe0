"""The queue's own writes and an app's in one TransactWriteItems: the one place that sends them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millrace.model.errors import InvalidTransaction, StoreUnavailable
from millrace.model.transaction import AppWrite, check_together
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.conditions import ABSENT, holds_token, nonce_is
from millrace.stores.dynamodb.items import (
    MESSAGE,
    RESULT,
    Item,
    entry_item,
    entry_of,
    message_item,
    message_key,
    message_of,
    place_key,
    result_item,
    result_of,
)
from millrace.stores.dynamodb.retrying_client import CONDITION_FAILED, THROTTLED, DynamoDBRefusal, RetryingClient
from millrace.stores.dynamodb.writes import Write, delete, put
from millrace.stores.interface import (
    APPLIED,
    EndStep,
    StepRefused,
    TooLate,
    TransactResult,
    TransactStep,
    Unknown,
    WritesRefused,
)

#: What DynamoDB says of an app's write in words of its own.
_WORDS = {"ConditionalCheckFailed": "its condition did not hold"}
_NOT_A_REASON = {"None", *THROTTLED}


class _NoTimeLeft(Exception):
    """The transaction is not sent any more."""

    def __init__(self, *, may_have_happened: bool) -> None:
        self.may_have_happened = may_have_happened  #: an earlier try got no answer


class AppTransactions:
    """Transactions that an app's own writes take part in."""

    _calls: RetryingClient
    _names: TableNames

    def transact(
        self,
        steps: Sequence[TransactStep],
        writes: Sequence[AppWrite],
        request_token: str,
        in_time: Callable[[], bool] = lambda: True,
    ) -> TransactResult:
        own = [(position, write) for position, step in enumerate(steps) for write in self._writes(step)]
        check_together(writes, len(own), self._names, self._calls.region)

        def before_sending(*, after_no_answer: bool) -> None:
            if not in_time():
                raise _NoTimeLeft(may_have_happened=after_no_answer)

        items = [write.in_transaction() for _, write in own] + [write.item() for write in writes]
        try:
            try:
                self._calls.send(
                    "transact_write_items",
                    before_sending=before_sending,
                    TransactItems=items,
                    ClientRequestToken=request_token,
                )
            except _NoTimeLeft as late:
                return self._not_sent(steps, may_have_happened=late.may_have_happened)
            except DynamoDBRefusal as refusal:
                return self._refused(steps, writes, [position for position, _ in own], refusal)
        except StoreUnavailable as error:
            return Unknown(error)
        return APPLIED

    def _writes(self, step: TransactStep) -> list[Write]:
        """What breaks without each condition: a stale claim would end the message; a message would be there twice."""
        table = self._names.queue
        if isinstance(step, EndStep):
            mine = holds_token(step.entry.token)
            return [delete(table, place_key(step.entry.place), mine), put(table, result_item(step.result))]
        free = nonce_is(step.replaces) if step.replaces else ABSENT
        message = put(table, message_item(step.message), free)
        return [message] if step.entry is None else [message, put(table, entry_item(step.entry), ABSENT)]

    def _not_sent(self, steps: Sequence[TransactStep], *, may_have_happened: bool) -> TransactResult:
        """Nothing of ours being there proves nothing after a try without an answer: the messages may all have been
        left out as duplicates, or have ended, and their places been taken since."""
        if any(map(self._happened, steps)):
            return APPLIED
        return Unknown(StoreUnavailable("No answer came in time.")) if may_have_happened else TooLate()

    def _refused(
        self, steps: Sequence[TransactStep], writes: Sequence[AppWrite], owners: Sequence[int], refusal: DynamoDBRefusal
    ) -> TransactResult:
        """Whose condition it was. Whatever is said, what carries our own nonce or version has happened."""
        if any(map(self._happened, steps)):
            return APPLIED
        reasons = refusal.reasons
        if not reasons:
            raise InvalidTransaction(f"DynamoDB refused the transaction, nothing was written: {refusal.told}.")
        for number, position in enumerate(owners):
            if reasons[number].get("Code") in CONDITION_FAILED:
                return self._step_refused(position, steps[position], reasons[number].get("Item") or None)
        theirs = {
            number: _reason(write, reason)
            for number, (write, reason) in enumerate(zip(writes, reasons[len(owners) :], strict=True))
            if reason.get("Code", "None") not in _NOT_A_REASON
        }
        if not theirs:
            return Unknown(StoreUnavailable(f"DynamoDB cancelled a transaction: {refusal.told}"))
        return WritesRefused(theirs)

    def _step_refused(self, position: int, step: TransactStep, item: Item | None) -> StepRefused:
        if isinstance(step, EndStep):
            return StepRefused(position, entry=entry_of(item) if item else None)
        found = message_of(item, step.message.id) if item and item["sk"]["S"] == MESSAGE else None
        return StepRefused(position, message=found)

    def _happened(self, step: TransactStep) -> bool:
        """One consistent read: is our own result, our own message there? Then all of the transaction is."""
        kind = RESULT if isinstance(step, EndStep) else MESSAGE
        wanted = step.result if isinstance(step, EndStep) else step.message
        item = self._calls.get_item(self._names.queue, message_key(wanted.id, kind))
        if item is None:
            return False
        if isinstance(step, EndStep):
            found = result_of(item, step.result.id)
            return (found.nonce, found.version) == (step.result.nonce, step.result.version)
        return bool(item["nonce"]["S"] == step.message.nonce)


def _reason(write: AppWrite, reason: dict[str, Any]) -> str:
    """Why, without the item: it is the app's, and may be secret."""
    code = str(reason.get("Code"))
    why = _WORDS.get(code) or ": ".join(filter(None, (code, str(reason.get("Message") or ""))))
    return f"{write.told}: {why}"
