"""The store on DynamoDB, put together from its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millrace.model.clock import Clock, system_clock
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.counters import Counters
from millrace.stores.dynamodb.dead_letters import DeadLetters
from millrace.stores.dynamodb.dictionaries import DictionaryItems
from millrace.stores.dynamodb.entries import Entries
from millrace.stores.dynamodb.erasures import Erasures
from millrace.stores.dynamodb.messages import Messages
from millrace.stores.dynamodb.order_numbers import OrderNumbers
from millrace.stores.dynamodb.queue_samples import QueueSamples
from millrace.stores.dynamodb.registry import Registry
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.scans import MessageScan
from millrace.stores.dynamodb.transactions import AppTransactions
from millrace.stores.dynamodb.webhook_problems import WebhookProblems

if TYPE_CHECKING:
    from millrace.stores.dynamodb.client import AnyClient
    from millrace.stores.interface import Store


class DynamoStore(
    Entries,
    Messages,
    Erasures,
    MessageScan,
    AppTransactions,
    Counters,
    OrderNumbers,
    Registry,
    QueueSamples,
    DictionaryItems,
    WebhookProblems,
    DeadLetters,
):
    """Both tables behind the `Store` interface. Safe to share between threads."""

    def __init__(
        self,
        client: AnyClient,
        names: TableNames,
        *,
        clock: Clock = system_clock,
        calls: RetryingClient | None = None,
    ) -> None:
        self._calls = calls or RetryingClient(client)
        self._names = names
        self._clock = clock


if TYPE_CHECKING:

    def _keeps_the_interface(store: DynamoStore) -> Store:
        return store
