"""Dictionaries in the queue table: pk `Z#{tenant}#{queue}`, sk the dictionary's name, or `SAMPLE`.

A dictionary is some 8 KB, written once and again when its use is prolonged, and read once by each process that needs
it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from millrace.model.clock import DAY
from millrace.model.dictionary import StoredDictionary
from millrace.stores.dynamodb.client import TableNames
from millrace.stores.dynamodb.items import Item, int_in, number, text_in
from millrace.stores.dynamodb.retrying_client import RetryingClient
from millrace.stores.dynamodb.writes import put

DICTIONARIES = "Z#"
SAMPLE = "SAMPLE"
#: A sample that was not used for so long is forgotten.
SAMPLE_MS = 30 * DAY


class DictionaryItems:
    """What bodies are packed with, and the ids from which the next one is made."""

    _calls: RetryingClient
    _names: TableNames

    def get_dictionary(self, tenant: str, queue: str, name: str) -> StoredDictionary | None:
        item = self._calls.get_item(self._names.queue, dictionary_key(tenant, queue, name))
        return stored_dictionary_of(item) if item else None

    def put_dictionary(self, tenant: str, queue: str, dictionary: StoredDictionary) -> None:
        item = dictionary_item(tenant, queue, dictionary)
        self._calls.send("put_item", **put(self._names.queue, item, None).request())

    def get_body_sample(self, tenant: str, queue: str) -> tuple[str, ...]:
        item = self._calls.get_item(self._names.queue, dictionary_key(tenant, queue, SAMPLE))
        return tuple(filter(None, text_in(item or {}, "ids").split(",")))

    def put_body_sample(self, tenant: str, queue: str, ids: Sequence[str], now: int) -> None:
        item = body_sample_item(tenant, queue, ids, now)
        self._calls.send("put_item", **put(self._names.queue, item, None).request())


def dictionary_pk(tenant: str, queue: str) -> str:
    return f"{DICTIONARIES}{tenant}#{queue}"


def dictionary_key(tenant: str, queue: str, name: str) -> Item:
    return {"pk": {"S": dictionary_pk(tenant, queue)}, "sk": {"S": name}}


def dictionary_item(tenant: str, queue: str, dictionary: StoredDictionary) -> Item:
    return {
        **dictionary_key(tenant, queue, dictionary.name),
        "data": {"B": dictionary.data},
        "until": number(dictionary.until),
        "ttl": number(dictionary.ttl),
    }


def stored_dictionary_of(item: Mapping[str, Any]) -> StoredDictionary:
    return StoredDictionary(text_in(item, "sk"), bytes(item["data"]["B"]), int_in(item, "until"))


def body_sample_item(tenant: str, queue: str, ids: Sequence[str], now: int) -> Item:
    return {
        **dictionary_key(tenant, queue, SAMPLE),
        "ids": {"S": ",".join(ids)},
        "ttl": number((now + SAMPLE_MS) // 1000),
    }
