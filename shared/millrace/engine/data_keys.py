"""Data keys as a process knows them: KMS is asked once for many messages.

A data key encrypts for its tenant's queue for a few minutes and so many contents; one that was unwrapped decrypts for
as long. So a KMS key that is disabled or deleted is out of use within those minutes, in every process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable

from millrace.model.clock import MINUTE, Clock
from millrace.model.encryption import Belonging, DataKey, EncryptedContent, KeyService
from millrace.model.errors import KeyUnavailable

#: How long a process uses a data key that it has: how long it works on while KMS does not answer, and how long a
#: disabled KMS key goes on being used.
USE_MS = 5 * MINUTE
#: Contents that one data key encrypts: who learns it reads so many, and each costs a thousandth of a call. Random
#: nonces would be safe for four billion.
USES = 1_000
#: Keys that a process keeps, those that were used last.
KEPT = 1_000
#: A key that cannot be used is asked for again after so long, however many messages need it.
ASK_AGAIN_MS = 1_000


class _KnownKey:
    """What is known of one key. Who asks KMS for it holds the lock, so that no other thread asks as well."""

    __slots__ = ("ask_at", "data_key", "failure", "lock", "until", "uses")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.data_key: DataKey | None = None
        self.until = 0
        self.uses = 0  #: that are left
        self.failure: KeyUnavailable | None = None  #: why there is none
        self.ask_at = 0  #: until then nobody asks again

    def current(self, now: int, ask: Callable[[], DataKey]) -> DataKey:
        """The key, asked for where it is not known or too old. Raises KeyUnavailable, KeyLost."""
        if self.data_key is not None and now < self.until and self.uses > 0:
            return self.data_key
        if self.failure is not None and now < self.ask_at:
            raise KeyUnavailable(self.failure.key, self.failure.reason)
        try:
            data_key = ask()
        except KeyUnavailable as failure:
            self.failure, self.ask_at = failure, now + ASK_AGAIN_MS
            raise
        self.keep(data_key, now)
        return data_key

    def keep(self, data_key: DataKey, now: int) -> None:
        self.data_key, self.until, self.uses, self.failure = data_key, now + USE_MS, USES, None


class DataKeys:
    """All data keys of a process. Safe to share between threads: a key that is slow to come holds up no other."""

    def __init__(self, service: KeyService | None, clock: Clock) -> None:
        self._service = service
        self._clock = clock
        self._known: dict[Hashable, _KnownKey] = {}
        self._lock = threading.Lock()

    def to_encrypt(self, key: str, belonging: Belonging) -> DataKey:
        """A data key under a KMS key, for one content. Raises KeyUnavailable."""
        service = self._demand(key)
        known = self._of((key, belonging.tenant, belonging.queue))
        with known.lock:
            data_key = known.current(self._clock(), lambda: service.generate(key, belonging.context))
            if known.uses == USES:  # a new one: whoever made it can read it as well
                self._of(_reading(data_key.wrapped, belonging)).keep(data_key, self._clock())
            known.uses -= 1
            return data_key

    def to_decrypt(self, content: EncryptedContent, belonging: Belonging) -> bytes:
        """The secret that a content was encrypted with. Raises KeyUnavailable, KeyLost."""
        service = self._demand(content.key_id)
        known = self._of(_reading(content.wrapped, belonging))

        def unwrap() -> DataKey:
            secret = service.unwrap(content.key_id, content.wrapped, belonging.context)
            return DataKey(content.key_id, content.wrapped, secret)

        with known.lock:
            return known.current(self._clock(), unwrap).secret

    def _demand(self, key: str) -> KeyService:
        if self._service is None:
            raise KeyUnavailable(key, "this process was given no access to KMS.")
        return self._service

    def _of(self, name: Hashable) -> _KnownKey:
        with self._lock:
            known = self._known.pop(name, None) or _KnownKey()
            self._known[name] = known
            if len(self._known) > KEPT:
                del self._known[next(iter(self._known))]
            return known


def _reading(wrapped: bytes, belonging: Belonging) -> Hashable:
    """KMS unwraps under the context that was wrapped under: a key that is known for one queue counts for no other."""
    return wrapped, belonging.tenant, belonging.queue
