"""How a provider signs, as data: where the parts are, how they are joined, how the digest is written.

A preset and a definition's own `verify_hmac` are both a `Scheme`; nothing else tells providers apart. `messages` are
the exact bytes that a signature covers.
"""

from __future__ import annotations

import hashlib
import hmac
import string
from base64 import b64encode
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from millrace.signatures.errors import ConfigurationMissing, RefusalReason, SignatureInvalid
from millrace.signatures.request import WebhookRequest

Algorithm = Literal["sha1", "sha256", "sha512"]
Encoding = Literal["hex", "hex_upper", "base64"]

_MAX_FORM_FIELDS = 2_000
#: How far ahead of our clock a signed time may be, whatever the tolerance for old ones.
MAX_AHEAD_SECONDS = 300
_FIELDS = frozenset({"id", "timestamp", "url", "body"})


class Layout(StrEnum):
    """How signatures lie in their header."""

    SINGLE = "single"  #: prefix + digest
    COMMAS = "commas"  #: prefix + digest, several joined by commas; the header may be repeated
    SPACES = "spaces"  #: `v1,` + digest, several joined by spaces (Standard Webhooks)
    STAMPED = "stamped"  #: `t=…,v1=…[,v1=…]` (Stripe)


class TimestampFormat(StrEnum):
    """How a timestamp is written."""

    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    RFC3339 = "rfc3339"


class Form(StrEnum):
    """What the signed bytes are made of, beyond the template."""

    TEMPLATE = "template"
    TWILIO = "twilio"  #: URL and sorted form fields, or URL with the body's hash in it


class ChallengeKind(StrEnum):
    """How a provider asks whether an endpoint is ours."""

    SLACK = "slack"
    ZOOM = "zoom"
    TWITCH = "twitch"
    META = "meta"
    X = "x"

    @property
    def signed(self) -> bool:
        """Sent as a signed POST; the others are plain GETs."""
        return self not in (ChallengeKind.META, ChallengeKind.X)


@dataclass(frozen=True, slots=True)
class Names:
    """The headers that one way of sending uses."""

    signature: str
    timestamp: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """How a provider takes an answer."""

    success_status: int = 202  #: what it counts as delivered; 204 goes without a body
    overload_status: int = 503  #: what makes it come back later; 429 only where the provider honours it
    answer_within_seconds: float | None = None  #: later counts as failed; None where nothing is documented
    redelivers: bool = True  #: tries again by itself after a failure
    event_headers: tuple[str, ...] = ()  #: worth keeping with the message; never a signature
    retries_within_seconds: int | None = None  #: its last retry comes so long after the first; None: not documented
    empty_answer_to_forms: bool = False  #: shows the body of an answer to a person: a form gets 200 with none


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way of signing requests. Frozen and comparable, so that it can be built once and shared."""

    name: str
    names: tuple[Names, ...]  #: the first whose headers are present is used, whole; they are never mixed
    layout: Layout = Layout.SINGLE
    prefix: str = ""
    algorithm: Algorithm = "sha256"
    encoding: Encoding = "hex"
    template: str = "{body}"
    form: Form = Form.TEMPLATE
    clock: TimestampFormat = TimestampFormat.SECONDS
    timestamp_field: str = ""  #: the timestamp is this field of the signed JSON body
    tolerance_seconds: int | None = None  #: how old a signed time may be; None: the provider signs no time
    standard_keys: bool = False  #: secrets are `whsec_` or `whpk_`
    id_headers: tuple[str, ...] = ()  #: name a delivery for people; no key, unless the template has {id}
    kind_headers: tuple[str, ...] = ()  #: say what an event is, where the same bytes are sent as several; not signed
    kinds: frozenset[str] = frozenset()  #: what they may say; nothing else makes another event of the same bytes
    id_field: str = ""  #: dotted path of the delivery's id in the signed JSON body
    challenge: ChallengeKind | None = None
    facts: Facts = Facts()
    parts: tuple[tuple[bytes, str], ...] = field(init=False, repr=False, compare=False)  #: the template, split once

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _split(self.template))
        fields = [name for _, name in self.parts if name]
        signs_body = "body" in fields or self.form is Form.TWILIO
        dated = any(names.timestamp for names in self.names) or self.layout is Layout.STAMPED
        if not set(fields) <= _FIELDS or not signs_body:
            raise ConfigurationMissing(f"scheme {self.name!r}: a template is made of {sorted(_FIELDS)}, with body")
        if dated != ("timestamp" in fields):
            raise ConfigurationMissing(f"scheme {self.name!r}: a timestamp counts only where it is signed")
        if (dated or self.timestamp_field) and not (self.tolerance_seconds and self.tolerance_seconds > 0):
            raise ConfigurationMissing(f"scheme {self.name!r}: a timestamp needs a tolerance above 0 s")
        if "id" in fields and not all(names.id for names in self.names):
            raise ConfigurationMissing(f"scheme {self.name!r}: a template with id needs the header of the id")

    @property
    def signs_id(self) -> bool:
        return "{id}" in self.template

    @property
    def timed(self) -> bool:
        return self.tolerance_seconds is not None

    @property
    def replay_seconds(self) -> int | None:
        """For how long one delivery verifies, so for how long repeats of it must be known; None: for ever."""
        if self.tolerance_seconds is None:
            return None
        return self.tolerance_seconds + self.ahead_seconds

    @property
    def ahead_seconds(self) -> int:
        return min(self.tolerance_seconds or 0, MAX_AHEAD_SECONDS)

    @property
    def signed_headers(self) -> frozenset[str]:
        """The headers that a signature covers; every other one can be changed on the way."""
        fields = {name for _, name in self.parts}
        stamps = {names.timestamp for names in self.names} if "timestamp" in fields else set()
        ids = {names.id for names in self.names} if "id" in fields else set()
        return frozenset(stamps | ids) - {""}


def _split(template: str) -> tuple[tuple[bytes, str], ...]:
    """Each literal of a template with the field that follows it; the empty field where none does."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError:
        raise ConfigurationMissing(f"template {template!r}: a brace is not closed") from None
    if any(spec or conversion for _, _, spec, conversion in parsed):
        raise ConfigurationMissing(f"template {template!r}: a field is a bare name in braces")
    return tuple((literal.encode("utf-8"), name or "") for literal, name, _, _ in parsed)


def messages(scheme: Scheme, request: WebhookRequest, timestamp: str, delivery_id: str) -> tuple[bytes, ...]:
    """Every byte string that a right signature of this request may cover: one for each spelling of a signed URL.

    Raises SignatureInvalid where the request cannot have been signed at all.
    """
    if scheme.form is Form.TWILIO:
        return _twilio(request)
    urls = (request.url, *request.other_urls) if "{url}" in scheme.template else ("",)
    return tuple(_filled(scheme, request.body, {"id": delivery_id, "timestamp": timestamp, "url": url}) for url in urls)


def _filled(scheme: Scheme, body: bytes, texts: dict[str, str]) -> bytes:
    pieces: list[bytes] = []
    for literal, name in scheme.parts:
        pieces.append(literal)
        if name:
            pieces.append(body if name == "body" else encoded(texts[name]))
    return b"".join(pieces)


def digest(scheme: Scheme, key: bytes, message: bytes) -> bytes:
    """The HMAC of a message as the provider writes it, prefix left out."""
    found = hmac.digest(key, message, scheme.algorithm)
    if scheme.encoding == "base64":
        return b64encode(found)
    text = found.hex()
    return (text.upper() if scheme.encoding == "hex_upper" else text).encode("ascii")


def encoded(text: str) -> bytes:
    """UTF-8, or SignatureInvalid: what cannot be encoded was never signed."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise SignatureInvalid(RefusalReason.MALFORMED) from None


def body_hash_parameter(url: str) -> str | None:
    """Twilio's `bodySHA256` in a URL. Raises SignatureInvalid where it is there twice."""
    _, _, query = url.partition("#")[0].partition("?")
    values = [pair.partition("=")[2] for pair in query.split("&") if pair.partition("=")[0] == "bodySHA256"]
    if len(values) > 1:
        raise SignatureInvalid(RefusalReason.MALFORMED)
    return values[0] if values else None


def _twilio(request: WebhookRequest) -> tuple[bytes, ...]:
    """URL and form fields; or the URL alone, which then must name the hash of the body.

    The hash is demanded wherever the URL names one, whatever the content type says: that header is not signed, and
    a signed JSON request must not pass with its body emptied and called a form.
    """
    named = body_hash_parameter(request.url)
    if named is None:
        fields = _form_fields(request)
    elif hmac.compare_digest(encoded(named), hashlib.sha256(request.body).hexdigest().encode("ascii")):
        fields = b""
    else:
        raise SignatureInvalid(RefusalReason.MISMATCH)
    addresses = (request.url, *request.other_urls)
    return tuple(encoded(url) + fields for address in addresses for url in _with_and_without_port(address))


def _form_fields(request: WebhookRequest) -> bytes:
    from urllib.parse import parse_qsl

    if not request.body:
        return b""
    if not request.is_form:
        raise SignatureInvalid(RefusalReason.MALFORMED)
    try:
        text = request.body.decode("utf-8")
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FORM_FIELDS)
    except ValueError:
        raise SignatureInvalid(RefusalReason.MALFORMED) from None
    return encoded("".join(name + value for name, value in sorted(set(pairs))))


def _with_and_without_port(url: str) -> tuple[str, ...]:
    """Twilio signs the default port on some products and leaves it out on others."""
    scheme, mark, rest = url.partition("://")
    cut = min((place for place in map(rest.find, "/?#") if place >= 0), default=len(rest))
    host, tail = rest[:cut], rest[cut:]
    bare, colon, port = host.rpartition(":")
    if not mark or not host:
        return (url,)
    if colon and port.isascii() and port.isdigit():
        return (url, f"{scheme}://{bare}{tail}")
    return (url, f"{scheme}://{host}:{443 if scheme == 'https' else 80}{tail}")
