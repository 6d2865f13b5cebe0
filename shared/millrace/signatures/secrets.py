"""Where secrets come from: the environment, Secrets Manager or SSM, by reference.

    env:NAME                       a variable of the process; its value may itself be one of the following
    secretsmanager:NAME[#key]      a secret, or one key of a secret that is a JSON object
    ssm:NAME[#key]                 a parameter, decrypted
    file:PATH[#key]                a file of this machine, for the local stack

A name that is no variable of the process is a key of what WEBHOOK_SECRETS refers to, where that is set; of what
TARGET_SECRETS refers to, for the secrets of targets.

A stored value is a plain string, or for a rotation a JSON list of `{name, value, not_before, not_after}` (times as
RFC 3339 or Unix seconds, both optional). Each reference is fetched when it is first needed, kept for `max_age_ms`,
and fetched again on a failed verification at most once in `refresh_ms`, so that a rotated secret needs no deploy and
a flood of bad signatures costs one call a minute. While a store does not answer, the copy at hand serves for
`stale_ms`; a secret that the store no longer has stops serving at once.

Nothing is raised while an error that holds a secret's text is being handled: such an error would carry the secret
along in its context.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from millrace.model.values import dataclass
from millrace.signatures.errors import ConfigurationMissing, SecretUnavailable
from millrace.signatures.keys import Secret

MINUTE_MS = 60_000
_FIELDS = {"name", "value", "not_before", "not_after"}
#: How a reference to a stored secret begins.
STORED = ("secretsmanager:", "ssm:")
#: The variable that names where secrets lie that no variable of their own holds: one JSON object, a key a name.
STORE = "WEBHOOK_SECRETS"
#: Gives the stored text of a name. Raises SecretMissing or StoreSilent.
Fetch = Callable[[str], str]


class SecretMissing(Exception):
    """The store answered: there is no such secret, or it is not ours to read."""


class StoreSilent(Exception):
    """The store did not answer, so nothing is known."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """The newest outcome of fetching one reference."""

    tried_ms: int  #: when it was last asked for, whatever came of it
    fetched_ms: int = 0  #: when it last came
    secrets: tuple[Secret, ...] = ()
    problem: str = ""  #: why there are none
    silent: bool = False  #: the store did not answer
    in_file: bool = False  #: of this machine: read anew each time, so that a secret that was just set counts


class SecretSource:
    """Secrets by reference, cached. Its repr names no value.

    `clock_ms` is read for ages and intervals only. `open_store` makes the fetch of a kind when a reference first needs
    it; `fetchers` (by kind) and `environ` are what tests replace.
    """

    def __init__(
        self,
        clock_ms: Callable[[], int],
        *,
        environ: Mapping[str, str] | None = None,
        open_store: Callable[[str], Fetch] | None = None,
        fetchers: Mapping[str, Fetch] | None = None,
        store: str = STORE,
        max_age_ms: int = 5 * MINUTE_MS,
        refresh_ms: int = MINUTE_MS,
        stale_ms: int = 60 * MINUTE_MS,
        retry_ms: int = 5_000,
    ) -> None:
        self._clock_ms = clock_ms
        self._environ = os.environ if environ is None else environ
        self._open_store = open_store
        self._fetchers = dict(fetchers or {})
        self._store = store
        self._max_age_ms = max_age_ms
        self._refresh_ms = refresh_ms
        self._stale_ms = stale_ms
        self._retry_ms = retry_ms
        self._kept: dict[str, _Kept] = {}
        self._lock = Lock()

    def resolve(self, references: Iterable[str]) -> tuple[Secret, ...]:
        """Every secret behind these references, live or not; never empty.

        Raises ConfigurationMissing where one is missing, empty or malformed, and SecretUnavailable where its store
        does not answer and no copy younger than `stale_ms` is at hand. Costs a call only for what is not cached.
        """
        found = tuple(secret for reference in references for secret in self._secrets(reference))
        if not found:
            raise ConfigurationMissing("no secret is configured")
        return found

    def refresh(self, references: Iterable[str]) -> bool:
        """Fetch again what was not asked for within `refresh_ms`; True where a secret is now another one."""
        stored = [found for found in map(self._followed, references) if not found.startswith("env:")]
        changed = [self._refreshed(reference) for reference in stored]
        return any(changed)

    def __repr__(self) -> str:
        return f"SecretSource({', '.join(self._kept)})"

    def _followed(self, reference: str) -> str:
        """Where a variable names a stored secret, that one; a name without a variable is a key of the store."""
        if not reference.startswith("env:"):
            return reference
        name = reference.removeprefix("env:")
        value = self._environ.get(name, "")
        if value.startswith(STORED):
            return value
        store = self._environ.get(self._store, "")
        return f"{store}#{name}" if store and not value and "#" not in name else reference

    def _secrets(self, reference: str) -> tuple[Secret, ...]:
        reference = self._followed(reference)
        if reference.startswith("env:"):
            return self._from_environment(reference)
        now = self._clock_ms()
        kept = self._kept.get(reference)
        if kept is None or self._due(kept, now):
            kept = self._fetch(reference, now)
        if kept.secrets:
            return kept.secrets
        raise (SecretUnavailable if kept.silent else ConfigurationMissing)(kept.problem)

    def _due(self, kept: _Kept, now: int) -> bool:
        """Whether to ask the store again: the copy is old, or there is none, and it was not asked just now."""
        if kept.in_file:
            return True
        fresh = bool(kept.secrets) and now - kept.fetched_ms < self._max_age_ms
        pause = self._retry_ms if kept.silent and not kept.secrets else self._refresh_ms
        return not fresh and now - kept.tried_ms >= pause

    def _refreshed(self, reference: str) -> bool:
        now = self._clock_ms()
        before = self._kept.get(reference)
        if before is not None and now - before.tried_ms < self._refresh_ms:
            return False
        return self._fetch(reference, now).secrets != (before.secrets if before else ())

    def _fetch(self, reference: str, now: int) -> _Kept:
        """Ask the store once, and remember what came of it: a failure too, or each request would ask again."""
        with self._lock:
            before = self._kept.get(reference)
            if before is not None and before.tried_ms >= now:
                return before  # another thread asked while this one waited
            kept = self._outcome(reference, now, before)
            self._kept[reference] = kept
            return kept

    def _outcome(self, reference: str, now: int, before: _Kept | None) -> _Kept:
        kind, _, rest = reference.partition(":")
        name, _, key = rest.partition("#")
        try:
            text = self._fetcher(kind, reference)(name)
            return _Kept(now, now, _parsed(text, reference, key), in_file=kind == "file")
        except StoreSilent:
            problem = f"{reference}: the store did not answer"
            if before is None or now - before.fetched_ms >= self._stale_ms:
                return _Kept(now, problem=problem, silent=True)
            return _Kept(now, before.fetched_ms, before.secrets, problem, silent=True)
        except SecretMissing:
            problem = f"{reference}: there is no such secret"
        except ConfigurationMissing as missing:
            problem = missing.problem
        if key and reference.startswith(f"{self._environ.get(STORE)}#"):
            problem = f"{key} is not set, or is no secret: `millrace secrets set {key}`"
        return _Kept(now, problem=problem, in_file=kind == "file")

    def _fetcher(self, kind: str, reference: str) -> Fetch:
        if kind == "file":
            return _read
        if kind not in self._fetchers:
            if kind not in ("secretsmanager", "ssm"):
                raise ConfigurationMissing(f"{reference}: a reference is env:, secretsmanager: or ssm:")
            if self._open_store is None:
                raise ConfigurationMissing(f"{reference}: no store of secrets is connected here")
            self._fetchers[kind] = self._open_store(kind)
        return self._fetchers[kind]

    def _from_environment(self, reference: str) -> tuple[Secret, ...]:
        name, _, key = reference.removeprefix("env:").partition("#")
        if name not in self._environ:
            raise ConfigurationMissing(f"{reference}: the variable is not set")
        return _parsed(self._environ[name], reference, key)


def _read(path: str) -> str:
    """A file of this machine, for the local stack."""
    try:
        return Path(path).read_text("utf-8")
    except OSError:
        raise SecretMissing from None


def _parsed(text: str, reference: str, key: str = "") -> tuple[Secret, ...]:
    """The secrets in a stored text; a plain string is one secret, named by its reference.

    Raises ConfigurationMissing, without any part of the text, for everything that is not exactly right: a misspelt
    `not_after` must not become a secret that never ends.
    """
    document = _json(text, reference)
    if key:
        if not isinstance(document, dict) or key not in document:
            raise ConfigurationMissing(f"{reference}: the secret is no JSON object with that key")
        document = document[key]
        text = document if isinstance(document, str) else ""
        document = _json(text, reference) if text else document
    elif isinstance(document, dict):
        raise ConfigurationMissing(f"{reference}: the secret is a JSON object; name a key of it after '#'")
    if not isinstance(document, list):
        # A newline at the end comes from a file or an editor, never from a provider.
        return (Secret(reference, text.rstrip("\r\n")),)
    found = tuple(_entry(item, reference) for item in document)
    if not found or len({secret.name for secret in found}) != len(found):
        raise ConfigurationMissing(f"{reference}: a list of secrets needs entries, each with its own name")
    return found


def _entry(item: object, reference: str) -> Secret:
    if not isinstance(item, dict) or not set(item) <= _FIELDS:
        raise ConfigurationMissing(f"{reference}: an entry has {', '.join(sorted(_FIELDS))} and nothing else")
    name, value = item.get("name"), item.get("value")
    if not isinstance(name, str) or not name or not isinstance(value, str):
        raise ConfigurationMissing(f"{reference}: an entry needs a name and a value")
    begin, end = (_moment(item.get(field), reference) for field in ("not_before", "not_after"))
    return Secret(name, value, begin, end)


def _moment(value: object, reference: str) -> int | None:
    if value is None:
        return None
    if type(value) is int:
        return value * 1000
    read = _date(value) if isinstance(value, str) else None
    if read is None:
        raise ConfigurationMissing(f"{reference}: a time is RFC 3339 with its offset, or Unix seconds")
    return read


def _date(text: str) -> int | None:
    from datetime import datetime

    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int(read.timestamp() * 1000) if read.tzinfo is not None else None


def _json(text: str, reference: str) -> Any:
    """The JSON container that a text is; None for a plain string, numbers and quoted text included."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        begin = "".join(text[:200].split())[:2]
    if begin in ("[{", '{"'):
        raise ConfigurationMissing(f"{reference}: the secret begins as JSON and is none")
    return None
