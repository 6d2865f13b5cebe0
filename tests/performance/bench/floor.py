"""The floor: the very calls that the library made, made again with nothing around them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.minimal_client import MinimalClient

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

Call = tuple[str, dict[str, Any]]


class RecordingClient:
    """Passes each call on to a client and keeps what was asked."""

    def __init__(self, client: DynamoDBClient | MinimalClient) -> None:
        self._client = client
        self.calls: list[Call] = []

    def __getattr__(self, operation: str) -> Any:
        call = getattr(self._client, operation)

        def recorded(**arguments: Any) -> Any:
            self.calls.append((operation, arguments))
            return call(**arguments)

        setattr(self, operation, recorded)
        return recorded

    def taken(self) -> list[Call]:
        calls, self.calls = self.calls, []
        return calls


def redirected(calls: list[Call], here: TableNames, there: TableNames) -> list[Call]:
    """The same calls for other tables, which hold the same items: made ready before any time is taken."""
    names = {here.queue: there.queue, here.dead_letters: there.dead_letters}

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            # A request token names a request for good: the one for the other table needs its own.
            given = {name: part[::-1] if name == "ClientRequestToken" else part for name, part in value.items()}
            return {names.get(name, name): renamed(part) for name, part in given.items()}
        if isinstance(value, list):
            return [renamed(part) for part in value]
        if isinstance(value, str):
            return names.get(value, value.replace(f'"{here.queue}"', f'"{there.queue}"'))
        return value

    return [(operation, renamed(arguments)) for operation, arguments in calls]


def replay(client: DynamoDBClient, calls: list[Call]) -> None:
    for operation, arguments in calls:
        getattr(client, operation)(**arguments)
