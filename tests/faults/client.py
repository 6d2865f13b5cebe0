"""A connection to DynamoDB that fails on demand: before a request is applied, after it, or for parts of it.

Everything that is not made to fail goes to a real engine, so what was applied is really there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from millrace.model.clock import Clock
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.store import DynamoStore

Answer = dict[str, Any]
Send = Callable[..., Answer]
#: What becomes of one request: gets the way to the engine, the operation and its arguments.
RequestFault = Callable[[Send, str, dict[str, Any]], Answer]
WHERE = "http://engine"


def client_error(operation: str, code: str, status: int = 400, **more: Any) -> ClientError:
    response: Any = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return ClientError(response, operation)


def works(send: Send, _operation: str, arguments: dict[str, Any]) -> Answer:
    return send(**arguments)


def throttled(_send: Send, operation: str, _arguments: dict[str, Any]) -> Answer:
    raise client_error(operation, "ProvisionedThroughputExceededException")


def refused(_send: Send, operation: str, _arguments: dict[str, Any]) -> Answer:
    raise client_error(operation, "AccessDeniedException")


def never_sent(_send: Send, _operation: str, _arguments: dict[str, Any]) -> Answer:
    raise EndpointConnectionError(endpoint_url=WHERE)


def timed_out_before(_send: Send, _operation: str, _arguments: dict[str, Any]) -> Answer:
    raise ReadTimeoutError(endpoint_url=WHERE)


def timed_out_after(send: Send, _operation: str, arguments: dict[str, Any]) -> Answer:
    """Applied, or refused by its condition: the answer is lost."""
    _apply(send, arguments)
    raise ReadTimeoutError(endpoint_url=WHERE)


def failed_before(_send: Send, operation: str, _arguments: dict[str, Any]) -> Answer:
    raise client_error(operation, "InternalServerError", 500)


def failed_after(send: Send, operation: str, arguments: dict[str, Any]) -> Answer:
    _apply(send, arguments)
    raise client_error(operation, "", 503)


def conflict(_send: Send, operation: str, arguments: dict[str, Any]) -> Answer:
    """Somebody else's transaction is at the same items this very moment."""
    if operation != "transact_write_items":
        raise client_error(operation, "TransactionConflictException")
    reasons = [{"Code": "None"} for _ in arguments["TransactItems"]]
    reasons[0]["Code"] = "TransactionConflict"
    raise client_error(operation, "TransactionCanceledException", CancellationReasons=reasons)


def cancelled(*codes: str) -> RequestFault:
    def fail(_send: Send, operation: str, _arguments: dict[str, Any]) -> Answer:
        reasons = [{"Code": code} for code in codes]
        raise client_error(operation, "TransactionCanceledException", CancellationReasons=reasons)

    return fail


def statements(**codes: str) -> RequestFault:
    """Statements of a batch that fail: `_1="ThrottlingError"` unsent, `_1="lost"` applied with its answer lost."""
    failing = {int(number[1:]): code for number, code in codes.items()}

    def fail(send: Send, operation: str, arguments: dict[str, Any]) -> Answer:
        assert operation == "batch_execute_statement"
        wanted = arguments["Statements"]
        sent = [number for number in range(len(wanted)) if failing.get(number, "lost") == "lost"]
        answer = send(Statements=[wanted[number] for number in sent]) if sent else {"Responses": []}
        answers = dict(zip(sent, answer["Responses"], strict=True))
        for number, code in failing.items():
            answers[number] = {"Error": {"Code": "InternalServerError" if code == "lost" else code, "Message": code}}
        return {**answer, "Responses": [answers[number] for number in range(len(wanted))]}

    return fail


def unread(leave: int) -> RequestFault:
    """A batch read that leaves the last `leave` keys for later."""

    def fail(send: Send, operation: str, arguments: dict[str, Any]) -> Answer:
        assert operation == "batch_get_item"
        ((table, request),) = arguments["RequestItems"].items()
        now, later = request["Keys"][:-leave], request["Keys"][-leave:]
        answer = send(RequestItems={table: {**request, "Keys": now}}) if now else {"Responses": {}}
        return {**answer, "UnprocessedKeys": {table: {**request, "Keys": later}}}

    return fail


def _apply(send: Send, arguments: dict[str, Any]) -> None:
    try:
        send(**arguments)
    except ClientError:
        return


class Time:
    """Seconds that pass only in waits, and in requests where the test says how long they take."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


class FaultyClient:
    """A client of which the next requests fail as planned; those after them work."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.meta = getattr(client, "meta", None)
        self._plan: deque[RequestFault] = deque()
        self._always: RequestFault | None = None
        self.time = Time()
        self.request_takes_s = 0.0
        self.sent: list[str] = []

    def plan(self, *faults: RequestFault, always: RequestFault | None = None) -> None:
        """The next requests meet these; every one after them `always`, where given."""
        self._plan = deque(faults)
        self._always = always
        self.sent = []

    def __getattr__(self, operation: str) -> Callable[..., Answer]:
        return partial(self._request, operation)

    def _request(self, operation: str, **arguments: Any) -> Answer:
        self.sent.append(operation)
        self.time.now += self.request_takes_s
        fault = self._plan.popleft() if self._plan else self._always or works
        return fault(getattr(self._client, operation), operation, arguments)


class StoreOnFaultyClient(DynamoStore):
    """The store over such a connection, with time and chance in the test's hand."""

    def __init__(self, faults: FaultyClient, names: TableNames, clock: Clock) -> None:
        self.faults = faults
        self.time = faults.time
        client: Any = faults
        calls = RetryingClient(client, monotonic=self.time.monotonic, sleep=self.time.sleep, chance=lambda: 1.0)
        super().__init__(client, names, clock=clock, calls=calls)
