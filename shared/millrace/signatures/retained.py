"""Which headers of a request may be kept with its message."""

from __future__ import annotations

from collections.abc import Iterable

from millrace.signatures.request import Headers
from millrace.signatures.scheme import Scheme

_ALWAYS = ("content-type", "content-encoding", "user-agent", "traceparent", "tracestate", "x-correlation-id")

#: A header whose name holds one of these is a credential or the proof of one, whatever a definition asks for.
_NEVER = ("auth", "cookie", "signature", "hmac", "secret", "token", "api-key", "apikey", "password", "session")

_MAX_VALUE_CHARACTERS = 1024


def retained_headers(scheme: Scheme | None, headers: Headers, also: Iterable[str] = ()) -> dict[str, str]:
    """The headers to store, by lower-case name: general ones, the provider's own, and `also` from the definition.

    Without a scheme there are none of a provider. Signatures, cookies and authorisation are never among them, even
    if `also` names them. Repeated values are joined with a comma; a value above 1024 characters is left out.
    """
    asked = [name.lower() for name in also if not any(mark in name.lower() for mark in _NEVER)]
    proofs = {names.signature for names in scheme.names} if scheme else set()
    own = (*scheme.facts.event_headers, *scheme.id_headers) if scheme else ()
    kept: dict[str, str] = {}
    for name in (*_ALWAYS, *own, *asked):
        values = headers.all(name)
        value = ", ".join(values)
        if values and name not in proofs and len(value) <= _MAX_VALUE_CHARACTERS:
            kept[name] = value
    return kept
