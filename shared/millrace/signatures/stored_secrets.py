"""What a stored secret says: one value, or several with validity windows.

Nothing is raised while an error that holds the text is being handled: such an error would carry the secret along
in its context.
"""

from __future__ import annotations

import json
from typing import Any

from millrace.signatures.errors import ConfigurationMissing
from millrace.signatures.keys import Secret

_FIELDS = {"name", "value", "not_before", "not_after"}


def parse(text: str, reference: str, key: str = "") -> tuple[Secret, ...]:
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
