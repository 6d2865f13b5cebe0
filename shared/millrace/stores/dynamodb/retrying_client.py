"""Requests to DynamoDB: which are repeated and for how long, strongly consistent reads, the answers to a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from millrace.model.clock import Chance, system_chance
from millrace.model.errors import StoreUnavailable
from millrace.model.values import dataclass
from millrace.stores.dynamodb.client import declined, never_sent, unanswered

if TYPE_CHECKING:
    from millrace.stores.dynamodb.client import AnyClient, EncodedStatement
    from millrace.stores.dynamodb.items import Item
    from millrace.stores.dynamodb.writes import BatchedWrite

BATCH = 25
READ_BATCH = 100
#: How long a request is repeated before it counts as unanswered.
DEADLINE_S = 8.0
#: The request surely did nothing.
THROTTLED = frozenset(
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
#: It may have happened or not.
AMBIGUOUS = frozenset({"InternalServerError", "InternalServerErrorException", "ServiceUnavailable", "InternalFailure"})
CONDITION_FAILED = frozenset({"ConditionalCheckFailedException", "ConditionalCheckFailed"})
DUPLICATE = "DuplicateItem"
#: Sorts right behind a key, before every longer one that begins with it: no key holds control characters.
JUST_AFTER = "\x01"


class BeforeSending(Protocol):
    """Called before every try of a request."""

    def __call__(self, *, after_no_answer: bool) -> None: ...


class ConditionFailed(Exception):
    """The write's condition did not hold."""

    def __init__(self, item: Item | None, *, after_no_answer: bool) -> None:
        super().__init__("the condition did not hold")
        self.item = item  #: as it stands
        self.after_no_answer = after_no_answer  #: an earlier try got no answer: it may have been this very write


@dataclass(frozen=True, slots=True)
class WriteAnswer:
    """DynamoDB's answer to one write."""

    code: str = ""  #: empty when it was applied
    item: Item | None = None  #: as it stands, with a refusal; as it was, with a batched deletion
    after_no_answer: bool = False  #: an earlier try got no answer: it may have been this very write
    error: StoreUnavailable | None = None


#: Applied at the first try, and nothing to say of it: nearly every answer.
WRITTEN = WriteAnswer()


def region_of(client: Any) -> str:
    """Where a client's tables are; empty where it does not say."""
    found = getattr(getattr(client, "meta", client), "region_name", None) or getattr(client, "region", None)
    return found if isinstance(found, str) else ""


class RetryingClient:
    """Requests with their retries: full jitter between tries, up to a deadline."""

    def __init__(
        self,
        client: AnyClient,
        *,
        deadline_s: float = DEADLINE_S,
        first_wait_s: float = 0.025,
        longest_wait_s: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        chance: Chance = system_chance,
    ) -> None:
        self.client = client
        self.region = region_of(client)
        #: Whether its batches take statements that are JSON already.
        self.takes_encoded = getattr(client, "takes_encoded", False) is True
        self._deadline_s = deadline_s
        self._first_wait_s = first_wait_s
        self._longest_wait_s = longest_wait_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._chance = chance

    def send(
        self,
        operation: str,
        *,
        repeatable: bool = True,
        deadline_s: float | None = None,
        before_sending: BeforeSending | None = None,
        **arguments: Any,
    ) -> dict[str, Any]:
        """One request until it is answered.

        Raises ConditionFailed with the item as it stands, or StoreUnavailable at the deadline (at once, where no
        answer came to a write that is not `repeatable`). `before_sending` is called before every try, for a request
        whose content is not ours, with whether an earlier try may have happened: it may raise, and its refusals are
        DynamoDBRefusal.
        """
        call = getattr(self.client, operation)
        deadline, failures = self._deadline(deadline_s), 0
        after_no_answer = False
        while True:
            try:
                if before_sending is not None:
                    before_sending(after_no_answer=after_no_answer)
                answer: dict[str, Any] = call(**arguments)
                return answer
            except declined() as error:
                code = error.response.get("Error", {}).get("Code", "")
                if before_sending is not None and _is_refusal(error):
                    raise DynamoDBRefusal(error) from None
                if code in CONDITION_FAILED:
                    raise ConditionFailed(_old_item(error), after_no_answer=after_no_answer) from None
                if code == "TransactionCanceledException":
                    self._check_cancelled(error, after_no_answer=after_no_answer)
                elif code in AMBIGUOUS or _status(error) >= 500:
                    after_no_answer = True
                elif code not in THROTTLED:
                    raise StoreUnavailable(f"DynamoDB refused {operation}: {error}") from error
                cause: Exception = error
            except never_sent() as error:
                cause = error
            except unanswered() as error:
                after_no_answer = True
                cause = error
            if after_no_answer and not repeatable:
                raise StoreUnavailable(f"DynamoDB gave no answer to {operation}; it may have happened.") from cause
            failures += 1
            if not self._wait(failures, deadline):
                raise StoreUnavailable(f"DynamoDB did not answer {operation} in time.") from cause

    def get_item(self, table: str, key: Item) -> Item | None:
        found: Item | None = self.send("get_item", TableName=table, Key=key, ConsistentRead=True).get("Item")
        return found

    def query_range(
        self,
        table: str,
        pk: str,
        after: str,
        upto: str,
        limit: int,
        *,
        newest_first: bool = False,
        deadline_s: float | None = None,
    ) -> tuple[list[Item], str | None]:
        """Up to `limit` items with `after` < sk <= `upto`, and the sort key after which the query goes on."""
        if after >= upto:
            return [], None
        answer = self.send(
            "query",
            deadline_s=deadline_s,
            TableName=table,
            KeyConditionExpression="pk = :pk AND sk BETWEEN :after AND :upto",
            ExpressionAttributeValues={":pk": {"S": pk}, ":after": {"S": after + JUST_AFTER}, ":upto": {"S": upto}},
            ConsistentRead=True,
            ScanIndexForward=not newest_first,
            Limit=limit,
        )
        last = answer.get("LastEvaluatedKey")
        return answer["Items"], last["sk"]["S"] if last else None

    def query_between(
        self, table: str, pk: str, after: str, before: str, limit: int, *, newest_first: bool = False
    ) -> tuple[list[Item], str | None]:
        """The same with `after` < sk < `before`. One more is read, since the upper bound itself may come along."""
        items, last = self.query_range(table, pk, after, before, limit + 1, newest_first=newest_first)
        found = [item for item in items if item["sk"]["S"] != before]
        more = len(found) > limit or last is not None
        return found[:limit], found[:limit][-1]["sk"]["S"] if more and found else None

    def query_all(self, table: str, pk: str, prefix: str = "") -> list[Item]:
        """Every item of a partition, or of those whose sort keys begin with `prefix`."""
        condition, values = "pk = :pk", {":pk": {"S": pk}}
        if prefix:
            condition, values[":prefix"] = "pk = :pk AND begins_with(sk, :prefix)", {"S": prefix}
        found: list[Item] = []
        start: dict[str, Any] = {}
        while True:
            answer = self.send(
                "query",
                TableName=table,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=values,
                ConsistentRead=True,
                **start,
            )
            found += answer["Items"]
            if "LastEvaluatedKey" not in answer:
                return found
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def read_all(self, table: str, keys: Sequence[Item]) -> list[Item]:
        """Every item of these keys that exists, strongly consistent: one left out for want of capacity is asked again.

        Raises StoreUnavailable at the deadline: an unread item must not pass for a missing one.
        """
        return [
            item
            for start in range(0, len(keys), READ_BATCH)
            for item in self._read_chunk(table, keys[start : start + READ_BATCH])
        ]

    def _read_chunk(self, table: str, keys: Sequence[Item]) -> list[Item]:
        items: list[Item] = []
        deadline, failures = self._deadline(), 0
        while True:
            answer = self.send("batch_get_item", RequestItems={table: {"Keys": keys, "ConsistentRead": True}})
            items += answer["Responses"].get(table, [])
            unread = answer.get("UnprocessedKeys", {}).get(table)
            if not unread:
                return items
            keys = unread["Keys"]
            failures += 1
            if not self._wait(failures, deadline):
                raise StoreUnavailable("DynamoDB kept leaving items unread: the table is short of capacity.")

    def batch(self, writes: Sequence[BatchedWrite], *, patience_s: float | None = None) -> list[WriteAnswer]:
        """Individually conditional PartiQL writes, up to 25 in a request: an answer for each, whatever happens.

        Answers that mean "not now" are asked again, only those, until the request's deadline, or where others of
        the request got through for no longer than `patience_s`; `StoreUnavailable` stands as the code of what never
        got through.
        """
        answers: list[WriteAnswer] = []
        for chunk in _chunks(writes):
            answers += self._chunk([write.statement() for write in chunk], patience_s)
        return answers

    def _chunk(
        self, statements: Sequence[dict[str, Any] | EncodedStatement], patience_s: float | None
    ) -> list[WriteAnswer]:
        answers = [WriteAnswer("StoreUnavailable")] * len(statements)
        open_ = list(range(len(statements)))
        unsure: set[int] = set()
        deadline, failures = self._deadline(), 0
        while open_:
            try:
                response = self.client.batch_execute_statement(Statements=[statements[n] for n in open_])  # type: ignore[misc]
                again = []
                for number, part in zip(open_, response["Responses"], strict=True):
                    if "Error" not in part and "Item" not in part and number not in unsure:
                        answers[number] = WRITTEN
                        continue
                    error: Any = part.get("Error", {})
                    code = error.get("Code", "")
                    if code in AMBIGUOUS:
                        unsure.add(number)
                    if code in AMBIGUOUS or code in THROTTLED:
                        again.append(number)
                    else:
                        item = error.get("Item") if code else part.get("Item")
                        answers[number] = WriteAnswer(code, item, number in unsure)
                open_ = again
            except declined() as error:
                code = error.response.get("Error", {}).get("Code", "")
                if code in AMBIGUOUS or _status(error) >= 500:
                    unsure.update(open_)
                elif code not in THROTTLED:
                    for number in open_:
                        answers[number] = WriteAnswer(code)
                    break
            except never_sent():
                pass
            except unanswered():
                unsure.update(open_)
            failures += 1
            if patience_s is not None and len(open_) < len(statements):
                deadline, patience_s = min(deadline, self._deadline(patience_s)), None
            if open_ and not self._wait(failures, deadline):
                break
        return answers

    def _deadline(self, deadline_s: float | None = None) -> float:
        return self._monotonic() + (self._deadline_s if deadline_s is None else deadline_s)

    def _wait(self, failures: int, deadline: float) -> bool:
        """Wait before the next try, full jitter; False where the deadline leaves no time for one."""
        wait = self._chance() * min(self._first_wait_s * (1 << min(failures - 1, 20)), self._longest_wait_s)
        if self._monotonic() + wait >= deadline:
            return False
        self._sleep(wait)
        return True

    @staticmethod
    def _check_cancelled(error: Any, *, after_no_answer: bool) -> None:
        """A transaction was cancelled: by a condition, or only by somebody else's at the same moment."""
        reasons: list[dict[str, Any]] = error.response.get("CancellationReasons", [])
        for reason in reasons:
            if reason.get("Code") in CONDITION_FAILED:
                raise CancelledByCondition(reasons, after_no_answer=after_no_answer)
        if not any(reason.get("Code") in THROTTLED for reason in reasons):
            raise StoreUnavailable(f"DynamoDB cancelled a transaction: {error}") from error


class DynamoDBRefusal(Exception):
    """DynamoDB refused a request whose content is somebody else's, and nothing was written; says why."""

    def __init__(self, error: Any) -> None:
        self.told = str(error)
        self.reasons: list[dict[str, Any]] = error.response.get("CancellationReasons") or []  #: one for each write
        super().__init__(self.told)


def _is_refusal(error: Any) -> bool:
    """Whether a repeat would be answered the same: it is not throttled, in another's way, or without an answer."""
    code = error.response.get("Error", {}).get("Code", "")
    if code in AMBIGUOUS or code in THROTTLED or _status(error) >= 500:
        return False
    codes = {reason.get("Code", "None") for reason in error.response.get("CancellationReasons") or []} - {"None"}
    return not codes or not codes <= THROTTLED


class CancelledByCondition(ConditionFailed):
    """A transaction's condition did not hold; says which."""

    def __init__(self, reasons: list[dict[str, Any]], *, after_no_answer: bool) -> None:
        self.items = [reason.get("Item") or None for reason in reasons]  #: as they stand, one for each write
        self.failed = [n for n, reason in enumerate(reasons) if reason.get("Code") in CONDITION_FAILED]
        super().__init__(reasons[self.failed[0]].get("Item") or None, after_no_answer=after_no_answer)


def _chunks(writes: Sequence[BatchedWrite]) -> Iterator[list[BatchedWrite]]:
    """In their order, 25 at most, and no item twice in one: that fails a request after it was applied in part."""
    chunk: list[BatchedWrite] = []
    keys: set[tuple[str, str]] = set()
    for write in writes:
        place = write.place
        if len(chunk) == BATCH or place in keys:
            yield chunk
            chunk, keys = [], set()
        chunk.append(write)
        keys.add(place)
    if chunk:
        yield chunk


def _old_item(error: Any) -> Item | None:
    item: Item | None = error.response.get("Item")
    return item or None


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
