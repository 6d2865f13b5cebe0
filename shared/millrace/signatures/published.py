"""Keys that a provider publishes: fetched from its own address when they are first needed, and kept for a while.

A document is kept for `max_age_ms`. While its place does not answer, the copy at hand serves for `stale_ms`; after
that, and where there never was one, KeysUnavailable is raised: the provider is answered 503 and sends again. What a
delivery itself names (a certificate, the id of a key) anybody can make up, so `most_new` new ones are looked for in
`refresh_ms`, and those that do not exist are remembered as such without pushing out a key that does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit

from millrace.model.values import dataclass
from millrace.signatures.errors import KeysUnavailable, RefusalReason, SignatureInvalid

MINUTE_MS = 60_000
#: Keys and absences that one process remembers.
MOST_KEPT = 64
T = TypeVar("T")


class KeysSilent(Exception):
    """The place of the keys did not answer, or not as it should, so nothing is known."""


@dataclass(frozen=True, slots=True)
class KeyAddress:
    """Where a key or a set of keys lies."""

    url: str
    question: bytes = field(default=b"", repr=False)  #: posted as JSON; may hold credentials. Empty: a GET


#: Gives the document at an address; None where its host says that there is none. Raises KeysSilent.
FetchKeys = Callable[[KeyAddress], bytes | None]


@dataclass(frozen=True, slots=True)
class _Kept:
    tried_ms: int  #: when it was last asked for, whatever came of it
    fetched_ms: int = 0  #: when it last came
    value: Any = None  #: as `read` made it; None: there is none
    silent: bool = False  #: the last try got no answer


class PublishedKeys:
    """Providers' keys by address, cached. One for each process."""

    def __init__(
        self,
        fetch: FetchKeys,
        clock_ms: Callable[[], int],
        *,
        max_age_ms: int = 60 * MINUTE_MS,
        refresh_ms: int = MINUTE_MS,
        stale_ms: int = 6 * 60 * MINUTE_MS,
        most_new: int = 10,
    ) -> None:
        self._fetch = fetch
        self._clock_ms = clock_ms
        self._max_age_ms = max_age_ms
        self._refresh_ms = refresh_ms
        self._stale_ms = stale_ms
        self._most_new = most_new
        self._kept: dict[KeyAddress, _Kept] = {}
        self._looked: dict[str, list[int]] = {}  #: when new addresses of a host were asked for
        self._lock = Lock()

    def get(self, address: KeyAddress, read: Callable[[bytes], T]) -> T:
        """What lies at an address, as `read` makes it of the document.

        Raises SignatureInvalid where its host says that nothing lies there, and KeysUnavailable where that is not
        known. Costs a fetch for what is not kept, or aged.
        """
        now = self._clock_ms()
        kept = self._kept.get(address)
        if kept is None or self._due(kept, now):
            kept = self._asked(address, read, now)
        if kept.value is None:
            if kept.silent:
                raise KeysUnavailable(f"{address.url}: the keys did not come")
            raise SignatureInvalid(RefusalReason.MISMATCH)
        found: T = kept.value
        return found

    def refresh(self, address: KeyAddress, read: Callable[[bytes], Any]) -> bool:
        """Ask again, unless that was done within `refresh_ms`; True where the document came.

        Raises KeysUnavailable where the last try got no answer: a key that is missing here may be there.
        """
        now = self._clock_ms()
        kept = self._kept.get(address)
        if kept is not None and now - kept.tried_ms < self._refresh_ms and not kept.silent:
            return False
        if kept is None or now - kept.tried_ms >= self._refresh_ms:
            kept = self._asked(address, read, now)
        if kept.silent:
            raise KeysUnavailable(f"{address.url}: the keys did not come")
        return True

    def visit(self, address: KeyAddress) -> None:
        """Ask once, and keep nothing. Raises KeysUnavailable where that was not answered with a document."""
        try:
            found = self._fetch(address)
        except KeysSilent:
            found = None
        if found is None:
            raise KeysUnavailable(f"{urlsplit(address.url).netloc}: it did not answer as it should")

    def _due(self, kept: _Kept, now: int) -> bool:
        fresh = kept.value is not None and now - kept.fetched_ms < self._max_age_ms
        return not fresh and now - kept.tried_ms >= self._refresh_ms

    def _asked(self, address: KeyAddress, read: Callable[[bytes], Any], now: int) -> _Kept:
        with self._lock:
            before = self._kept.get(address)
            if before is not None and before.tried_ms >= now:
                return before  # another thread asked while this one waited
            if before is None and not self._may_look(address, now):
                return _Kept(now, silent=True)
            kept = self._kept[address] = self._outcome(address, read, now, before)
            self._forget_some()
            return kept

    def _outcome(self, address: KeyAddress, read: Callable[[bytes], Any], now: int, before: _Kept | None) -> _Kept:
        try:
            document = self._fetch(address)
            return _Kept(now, now, None if document is None else read(document))
        except (KeysSilent, ValueError):
            if before is None or before.value is None or now - before.fetched_ms >= self._stale_ms:
                return _Kept(now, silent=True)
            return replace(before, tried_ms=now, silent=True)

    def _may_look(self, address: KeyAddress, now: int) -> bool:
        """Whether one more address of this host may be asked for. Each counts, whatever comes of it."""
        host = urlsplit(address.url).netloc
        recent = [then for then in self._looked.get(host, []) if now - then < self._refresh_ms]
        self._looked[host] = [*recent, now] if len(recent) < self._most_new else recent
        return len(recent) < self._most_new

    def _forget_some(self) -> None:
        """Keep the bound: what does not exist goes first, then what came longest ago."""
        while len(self._kept) > MOST_KEPT:
            del self._kept[
                min(self._kept, key=lambda one: (self._kept[one].value is not None, self._kept[one].tried_ms))
            ]
