"""Sending requests to DynamoDB: what is repeated, for how long, and what came of each statement of a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as NoConnection

from millrace.clock import Chance, system_chance
from millrace.errors import StoreUnavailable
from millrace.stores.dynamodb.items import Item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

BATCH = 25
#: The request was turned away: it surely did nothing.
TURNED_AWAY = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "ProvisionedThroughputExceeded",
        "ThrottlingException",
        "ThrottlingError",
        "RequestLimitExceeded",
        "TransactionConflictException",
        "TransactionConflict",
        "TransactionInProgressException",
    }
)
#: No telling whether it did anything.
NO_TELLING = frozenset({"InternalServerError", "InternalServerErrorException", "ServiceUnavailable", "InternalFailure"})
CONDITION_FAILED = frozenset({"ConditionalCheckFailedException", "ConditionalCheckFailed"})
DUPLICATE = "DuplicateItem"


class ConditionFailed(Exception):
    """The write's condition did not hold."""

    def __init__(self, item: Item | None, *, after_silence: bool) -> None:
        super().__init__("the condition did not hold")
        self.item = item  #: as it stands
        self.after_silence = after_silence  #: an earlier try got no answer: it may have been this very write


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one statement."""

    code: str = ""  #: empty when it was applied
    item: Item | None = None
    after_silence: bool = False


class Calls:
    """Requests with their retries: full jitter between tries, up to a deadline."""

    def __init__(
        self,
        client: DynamoDBClient,
        *,
        deadline_s: float = 8.0,
        first_wait_s: float = 0.025,
        longest_wait_s: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Chance = system_chance,
    ) -> None:
        self.client = client
        self._deadline_s = deadline_s
        self._first_wait_s = first_wait_s
        self._longest_wait_s = longest_wait_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._chance = chance

    def send(self, operation: str, *, repeatable: bool = True, **arguments: Any) -> dict[str, Any]:
        """One request until it is answered.

        Raises ConditionFailed with the item as it stands, or StoreUnavailable at the deadline (at once, where no
        answer came to a write that is not `repeatable`).
        """
        call = getattr(self.client, operation)
        tries = self._tries()
        after_silence = False
        while True:
            try:
                answer: dict[str, Any] = call(**arguments)
                return answer
            except ClientError as error:
                code = error.response.get("Error", {}).get("Code", "")
                if code in CONDITION_FAILED:
                    raise ConditionFailed(_old_item(error), after_silence=after_silence) from None
                if code == "TransactionCanceledException":
                    self._check_cancelled(error, after_silence=after_silence)
                elif code in NO_TELLING or _status(error) >= 500:
                    after_silence = True
                elif code not in TURNED_AWAY:
                    raise StoreUnavailable(f"DynamoDB refused {operation}: {error}") from error
                cause: Exception = error
            except (NoConnection, HTTPClientError) as error:
                after_silence = True
                cause = error
            if after_silence and not repeatable:
                raise StoreUnavailable(f"DynamoDB gave no answer to {operation}; it may have happened.") from cause
            if not next(tries):
                raise StoreUnavailable(f"DynamoDB did not answer {operation} within {self._deadline_s} s.") from cause

    def batch(self, statements: Sequence[dict[str, Any]]) -> list[Answer]:
        """Individually conditional PartiQL writes, 25 in a request: an answer for each.

        Answers that mean "not now" are asked again, only those, until the deadline; `StoreUnavailable` stands as the
        code of what never got through.
        """
        answers: list[Answer] = []
        for start in range(0, len(statements), BATCH):
            answers += self._chunk(statements[start : start + BATCH])
        return answers

    def _chunk(self, statements: Sequence[dict[str, Any]]) -> list[Answer]:
        answers = [Answer("StoreUnavailable")] * len(statements)
        open_ = list(range(len(statements)))
        silent: set[int] = set()
        tries = self._tries()
        while open_:
            try:
                response = self.client.batch_execute_statement(Statements=[statements[n] for n in open_])  # type: ignore[misc]
                again = []
                for number, part in zip(open_, response["Responses"], strict=True):
                    error: Any = part.get("Error", {})
                    code = error.get("Code", "")
                    if code in NO_TELLING:
                        silent.add(number)
                    if code in NO_TELLING or code in TURNED_AWAY:
                        again.append(number)
                    else:
                        item = error.get("Item") if code else part.get("Item")
                        answers[number] = Answer(code, item, number in silent)
                open_ = again
            except ClientError as error:
                code = error.response.get("Error", {}).get("Code", "")
                if code in NO_TELLING or _status(error) >= 500:
                    silent.update(open_)
                elif code not in TURNED_AWAY:
                    raise StoreUnavailable(f"DynamoDB refused a batch: {error}") from error
            except (NoConnection, HTTPClientError):
                silent.update(open_)
            if open_ and not next(tries):
                break
        return answers

    def _tries(self) -> Any:
        """Waits before the next try, full jitter; yields whether there is time for one."""
        end = self._monotonic() + self._deadline_s
        cap = self._first_wait_s
        while True:
            wait = self._chance() * cap
            if self._monotonic() + wait >= end:
                yield False
            self._sleep(wait)
            yield True
            cap = min(cap * 2, self._longest_wait_s)

    @staticmethod
    def _check_cancelled(error: ClientError, *, after_silence: bool) -> None:
        """A transaction was cancelled: by a condition, or only by somebody else's at the same moment."""
        reasons: list[dict[str, Any]] = error.response.get("CancellationReasons", [])  # type: ignore[assignment]
        for reason in reasons:
            if reason.get("Code") in CONDITION_FAILED:
                raise CancelledByCondition(reasons, after_silence=after_silence)
        if not any(reason.get("Code") in TURNED_AWAY for reason in reasons):
            raise StoreUnavailable(f"DynamoDB cancelled a transaction: {error}") from error


class CancelledByCondition(ConditionFailed):
    """A transaction's condition did not hold; says which."""

    def __init__(self, reasons: list[dict[str, Any]], *, after_silence: bool) -> None:
        self.failed = [n for n, reason in enumerate(reasons) if reason.get("Code") in CONDITION_FAILED]
        super().__init__(reasons[self.failed[0]].get("Item") or None, after_silence=after_silence)


def _old_item(error: ClientError) -> Item | None:
    item: Item | None = error.response.get("Item")  # type: ignore[assignment]
    return item or None


def _status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
