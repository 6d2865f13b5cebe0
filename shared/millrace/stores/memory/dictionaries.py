"""Dictionaries in one process's memory."""

from __future__ import annotations

from collections.abc import Sequence

from millrace.model.dictionary import StoredDictionary


class MemoryDictionaries:
    """Each step is one operation on a mapping, which is atomic."""

    def __init__(self) -> None:
        self.dictionaries: dict[tuple[str, str, str], StoredDictionary] = {}
        self.body_samples: dict[tuple[str, str], tuple[str, ...]] = {}

    def get_dictionary(self, tenant: str, queue: str, name: str) -> StoredDictionary | None:
        return self.dictionaries.get((tenant, queue, name))

    def put_dictionary(self, tenant: str, queue: str, dictionary: StoredDictionary) -> None:
        self.dictionaries[tenant, queue, dictionary.name] = dictionary

    def get_body_sample(self, tenant: str, queue: str) -> tuple[str, ...]:
        return self.body_samples.get((tenant, queue), ())

    def put_body_sample(self, tenant: str, queue: str, ids: Sequence[str], now: int) -> None:  # noqa: ARG002 (never old)
        self.body_samples[tenant, queue] = tuple(ids)
