"""The store on DynamoDB, put together from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millrace.clock import Clock, system_clock
from millrace.stores.dynamodb.bookkeeping import Bookkeeping
from millrace.stores.dynamodb.calls import Calls
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.dead_letters import DeadLetters
from millrace.stores.dynamodb.entries import Entries
from millrace.stores.dynamodb.messages import Messages
from millrace.stores.dynamodb.tables import Requests

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from millrace.store import Store


class DynamoStore(Entries, Messages, Bookkeeping, DeadLetters):
    """Both tables behind the `Store` interface. Safe to share between threads."""

    def __init__(
        self,
        client: DynamoDBClient,
        names: TableNames,
        *,
        clock: Clock = system_clock,
        calls: Calls | None = None,
    ) -> None:
        self._calls = calls or Calls(client)
        self._names = names
        self._requests = Requests(names)
        self._clock = clock


if TYPE_CHECKING:

    def _keeps_the_interface(store: DynamoStore) -> Store:
        return store
