"""A webhook as it arrived: what every scheme reads, and which of its headers may be kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from millrace.model.strict_json import parse
from millrace.model.values import dataclass
from millrace.signatures.errors import RefusalReason, SignatureInvalid

if TYPE_CHECKING:
    from millrace.signatures.scheme import Scheme

#: Longest header value that any scheme needs; longer ones are not worth splitting.
MAX_HEADER_CHARACTERS = 4096

FORM_TYPE = "application/x-www-form-urlencoded"

_UNREAD = object()

#: Kept of every request.
_ALWAYS = ("content-type", "content-encoding", "user-agent", "traceparent", "tracestate", "x-correlation-id")

#: A header whose name holds one of these is a credential or the proof of one, whatever a definition asks for.
_NEVER = (
    *("auth", "cookie", "signature", "hmac", "secret", "token", "api-key", "apikey", "password", "session"),
    *("-sig", "-mac", "verif", "trello-webhook"),
)

_MAX_VALUE_CHARACTERS = 1024
_MAX_ID_CHARACTERS = 256


def is_plain(text: str) -> bool:
    """Short visible ASCII without spaces: what an id or a token may consist of."""
    return 0 < len(text) <= _MAX_ID_CHARACTERS and text.isascii() and text.isprintable() and " " not in text


class Headers:
    """Request headers: names without case, every value kept in the order sent.

    Its repr shows names only, because values hold signatures, cookies and tokens.
    """

    __slots__ = ("_values",)

    def __init__(self, pairs: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        listed = pairs.items() if isinstance(pairs, Mapping) else pairs
        values: dict[str, tuple[str, ...]] = {}
        for name, value in listed:
            key = name.lower()
            # Spaces and tabs around a value are not part of it (RFC 9110, 5.5).
            values[key] = (*values.get(key, ()), value.strip(" \t"))
        self._values = values

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of a header; empty where it was not sent."""
        return self._values.get(name.lower(), ())

    def one(self, name: str) -> str:
        """The value of a header that must be sent exactly once.

        Raises SignatureInvalid where it is missing, empty, overlong, or sent twice: two values would let a proxy
        and this code each believe another one.
        """
        values = self.all(name)
        if not values or not values[0]:
            raise SignatureInvalid(RefusalReason.MISSING_HEADER)
        if len(values) > 1:
            raise SignatureInvalid(RefusalReason.AMBIGUOUS_HEADER)
        if len(values[0]) > MAX_HEADER_CHARACTERS:
            raise SignatureInvalid(RefusalReason.MALFORMED)
        return values[0]

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __repr__(self) -> str:
        return f"Headers({', '.join(self._values)})"


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """One request, frozen, with the exact bytes of its body.

    The repr leaves out everything that may hold a secret: URL, query, header values, body.
    """

    method: str
    url: str = field(repr=False)  #: whole, exactly as the provider called and signed it, query included
    path: str
    query: str = field(repr=False)  #: raw, without the question mark
    headers: Headers
    body: bytes = field(repr=False)
    source_ip: str = ""
    other_urls: tuple[str, ...] = field(default=(), repr=False)  #: the same address in other spellings, any signed
    _document: list[Any] = field(default_factory=lambda: [_UNREAD], init=False, repr=False, compare=False)

    @classmethod
    def build(
        cls,
        method: str,
        url: str,
        headers: Headers | Mapping[str, str] | Iterable[tuple[str, str]] = (),
        body: bytes = b"",
    ) -> WebhookRequest:
        """A request whose path and query are those of its URL."""
        _, _, rest = url.partition("://")
        target, _, query = (rest or url).partition("#")[0].partition("?")
        _, slash, path = target.partition("/")
        found = headers if isinstance(headers, Headers) else Headers(headers)
        return cls(method.upper(), url, slash + path or "/", query, found, body)

    def document(self) -> Any:
        """The body as JSON, parsed once however often it is asked for.

        Raises ValueError for anything that is not strict UTF-8 JSON as `millrace.model.strict_json` reads it.
        """
        if self._document[0] is _UNREAD:
            self._document[0] = parse(self.body)
        return self._document[0]

    def object_document(self) -> dict[str, Any]:
        """The body as a JSON object; an empty one where the body is anything else."""
        try:
            found = self.document()
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    @property
    def is_form(self) -> bool:
        sent = self.headers.all("content-type")
        return len(sent) == 1 and sent[0].partition(";")[0].strip().lower() == FORM_TYPE

    def parameter(self, name: str) -> str | None:
        """A query parameter sent exactly once, decoded; None where it is missing or repeated."""
        from urllib.parse import parse_qsl

        try:
            pairs = parse_qsl(self.query, keep_blank_values=True, errors="strict", max_num_fields=100)
        except ValueError:
            return None
        values = [value for key, value in pairs if key == name]
        return values[0] if len(values) == 1 else None


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
