"""The store on DynamoDB: PynamoDB describes the tables and writes single items, boto3's PartiQL batches the rest.

Names are brought in when they are first asked for: a function that only enqueues must not pay for the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from millrace.stores.dynamodb.blobs import S3Blobs
    from millrace.stores.dynamodb.client import TableNames, dynamodb_client
    from millrace.stores.dynamodb.store import DynamoStore

__all__ = ["DynamoStore", "S3Blobs", "TableNames", "dynamodb_client"]

_HOMES = {"DynamoStore": "store", "S3Blobs": "blobs", "TableNames": "client", "dynamodb_client": "client"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
