"""Dictionaries as a process knows them: each is read when it is first needed, and kept.

A queue without one costs nothing. A sender that cannot have its queue's dictionary packs without it; a reader needs
the very one that a body was packed with.
"""

from __future__ import annotations

import threading
from typing import Protocol

from millrace.model.clock import MINUTE, Clock
from millrace.model.dictionary import Dictionary, StoredDictionary, dictionary_of
from millrace.model.errors import DictionaryLost, StoreUnavailable
from millrace.model.values import dataclass

#: So many are kept by a process, those that were read last: 32 KB each, and 300 KB where it packs with one.
KEPT = 64
#: A sender that could not have a dictionary asks for it again after so long.
ASK_AGAIN_MS = MINUTE


class DictionarySource(Protocol):
    """Where dictionaries lie: a store, or what was read of one."""

    def get_dictionary(self, tenant: str, queue: str, name: str) -> StoredDictionary | None: ...


@dataclass(frozen=True, slots=True)
class _Known:
    dictionary: Dictionary | None
    until: int = 0  #: a sender may pack with it before this
    ask_at: int = 0  #: it was not to be had: no sender asks before this


class Dictionaries:
    """All that a process has read. Safe to share between threads; nothing is read under its lock."""

    def __init__(self, source: DictionarySource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._known: dict[tuple[str, str, str], _Known] = {}
        self._lock = threading.Lock()

    def to_pack(self, tenant: str, queue: str, name: str) -> Dictionary | None:
        """The dictionary, while it may be packed with; None where it is not to be had now. Raises nothing."""
        key, now = (tenant, queue, name), self._clock()
        known = self._known.get(key)
        if known is None or (known.until <= now and known.ask_at <= now):
            try:
                known = self._read(key)
            except (StoreUnavailable, DictionaryLost):
                known = _Known(known.dictionary if known else None)
            if known.until <= now:
                known = _Known(known.dictionary, ask_at=now + ASK_AGAIN_MS)
            self._keep(key, known)
        return known.dictionary if now < known.until else None

    def to_unpack(self, tenant: str, queue: str, name: str) -> Dictionary:
        """The dictionary, however old. Raises DictionaryLost where it is gone, StoreUnavailable where none can tell."""
        key = (tenant, queue, name)
        known = self._known.get(key)
        if known is None or known.dictionary is None:
            known = self._read(key)
            self._keep(key, known)
        if known.dictionary is None:
            raise DictionaryLost(tenant, queue, name)
        return known.dictionary

    def _read(self, key: tuple[str, str, str]) -> _Known:
        stored = self._source.get_dictionary(*key)
        dictionary = dictionary_of(stored) if stored else None
        if stored is None or dictionary is None:
            raise DictionaryLost(*key)
        return _Known(dictionary, stored.until)

    def _keep(self, key: tuple[str, str, str], known: _Known) -> None:
        with self._lock:
            self._known.pop(key, None)
            self._known[key] = known
            if len(self._known) > KEPT:
                del self._known[next(iter(self._known))]
