"""How a provider signs, as data: where the parts are, how they are joined, how the digest is written.

A preset and a definition's own `verify_hmac` are both a `Scheme`; nothing else tells providers apart.
"""

from __future__ import annotations

import string
from dataclasses import field
from enum import StrEnum
from typing import Literal

from millrace.model.values import dataclass
from millrace.signatures.errors import ConfigurationMissing

#: `token`: the secret itself is sent. The last three are signatures with a key pair; `jwt` is what its rules say.
Algorithm = Literal["sha1", "sha256", "sha512", "md5", "token", "jwt", "ed25519", "ecdsa", "rsa"]
Encoding = Literal["hex", "hex_upper", "base64", "base64url", "plain"]
#: How a secret is written: its text is the key, or it is the key in base64 or hex, or a Standard Webhooks secret.
KeyForm = Literal["text", "base64", "hex", "standard"]

#: How far ahead of our clock a signed time may be, whatever the tolerance for old ones.
MAX_AHEAD_SECONDS = 300
_FIELDS = frozenset({"id", "timestamp", "url", "body"})
#: Of PayPal: what the secret says, and a checksum of the body, which is no hash.
_CERTIFIED_FIELDS = _FIELDS | {"secret", "crc32"}


class Layout(StrEnum):
    """How signatures lie in their header."""

    SINGLE = "single"  #: prefix + digest
    COMMAS = "commas"  #: prefix + digest, several joined by commas; the header may be repeated
    SPACES = "spaces"  #: `v1,` + digest, several joined by spaces (Standard Webhooks)
    NUMBERED = "numbered"  #: a header for each, its name ending in 1, 2, … (DocuSign)
    STAMPED = "stamped"  #: `t=…,v1=…[,v1=…]` (Stripe), with the scheme's own names and separator
    PAIRS = "pairs"  #: `t=…,v1=…` for each secret, a blank between them (Persona)


class SignaturePlace(StrEnum):
    """Where a signature and its parts are."""

    HEADER = "header"
    QUERY = "query"  #: parameters of the URL
    BODY = "body"  #: dotted paths of the JSON body


class TimestampFormat(StrEnum):
    """How a timestamp is written."""

    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    RFC3339 = "rfc3339"


class Form(StrEnum):
    """What the signed bytes are made of, beyond the template."""

    TEMPLATE = "template"
    TWILIO = "twilio"  #: URL and sorted form fields, or URL with the body's hash in it
    ADYEN = "adyen"  #: eight fields of a notification
    SNS = "sns"  #: the names and values of some fields, a line each


class ChallengeKind(StrEnum):
    """How a provider asks whether an endpoint is ours."""

    SLACK = "slack"
    ZOOM = "zoom"
    TWITCH = "twitch"
    META = "meta"
    X = "x"
    ECHO = "echo"  #: what `challenge` says, said again (Dropbox, Nylas)
    HEAD = "head"  #: whether there is anything (Trello)
    GRAPH = "graph"  #: what `validationToken` of a POST says, said again
    PING = "ping"  #: a form with nothing but the webhook's number (WooCommerce)
    EVENT_GRID = "event_grid"  #: a code in an event, or an origin in the headers of an OPTIONS
    SNS = "sns"  #: an address to visit

    @property
    def signed(self) -> bool:
        """Proven like an event; the others anybody can ask."""
        return self in _PROVEN_QUESTIONS


_PROVEN_QUESTIONS = frozenset(
    {
        *(ChallengeKind.SLACK, ChallengeKind.ZOOM, ChallengeKind.TWITCH),
        *(ChallengeKind.EVENT_GRID, ChallengeKind.SNS),
    }
)


@dataclass(frozen=True, slots=True)
class Names:
    """The headers that one way of sending uses."""

    signature: str
    timestamp: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Where the certificate lies that a delivery names, and what its address may be: nothing else is ever fetched."""

    name: str  #: of the header, or of the body's field
    address: str  #: a pattern for the whole of it; a group `region` must be that of the topic
    algorithm_name: str  #: of the header or field that says how it is signed
    algorithms: tuple[tuple[str, Literal["sha1", "sha256"]], ...]  #: what that may say, and what it means
    subject: str = ""  #: how its common name ends


@dataclass(frozen=True, slots=True)
class JwtRules:
    """What a JSON web token must say. Its algorithm is given here, never by the token."""

    algorithm: Literal["HS256", "RS256", "ES256"]
    keys: str = ""  #: where its maker publishes them; empty: the secret is the key
    asked_by_id: bool = False  #: one key at a time, by a POST with the credentials that the secret holds
    issuers: tuple[str, ...] = ()  #: one of them; none: the provider names none
    time_claim: str = ""  #: when it was made; `exp` counts as well, wherever it is said
    body_claim: str = ""  #: holds the hex SHA-256 of the body; empty: whoever has a token can send anything
    url_claim: str = ""  #: the same of the URL
    identity: bool = False  #: the secret is `AUDIENCE EMAIL`, and both must be the token's


@dataclass(frozen=True, slots=True)
class DeliveryFacts:
    """How a provider delivers, as its maker says. What no source tells is None or empty."""

    accepts: str = ""  #: what it takes as delivered: `2xx`, or the statuses
    within_seconds: float | None = None  #: a later answer counts as none
    redelivers: bool = False  #: tries again after a failure, and no more is told
    retries: int | None = None  #: how often it tries again; 0: never
    over_seconds: int | None = None  #: its last retry comes so long after the first attempt
    restamps: bool = False  #: each attempt is signed with its own time, or its maker refuses older ones too
    sources: tuple[str, ...] = ()  #: where it says so, if not where it says how it signs

    def takes(self, status: int) -> bool:
        """Whether a status is known to count as delivered."""
        return (200 <= status < 300 and self.accepts == "2xx") or str(status) in self.accepts.split()


@dataclass(frozen=True, slots=True)
class Facts:
    """How a provider is answered, and why."""

    success_status: int = 202  #: 204 goes without a body
    overload_status: int = 503  #: what makes it come back later; 429 only where the provider honours it
    event_headers: tuple[str, ...] = ()  #: worth keeping with the message; never a signature
    source: str = ""  #: where the provider says how it signs
    empty_answer_to_forms: bool = False  #: shows the body of an answer to a person: a form gets 200 with none
    delivery: DeliveryFacts = DeliveryFacts()


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way of signing requests. Frozen and comparable, so that it can be built once and shared."""

    name: str
    names: tuple[Names, ...]  #: the first whose headers are present is used, whole; they are never mixed
    place: SignaturePlace = SignaturePlace.HEADER
    layout: Layout = Layout.SINGLE
    separator: str = ","  #: between the parts of a list or a stamped header
    stamp_prefix: str = "t="  #: of the time in a stamped header
    prefix: str = ""
    algorithm: Algorithm = "sha256"
    encoding: Encoding = "hex"
    template: str = "{body}"
    form: Form = Form.TEMPLATE
    clock: TimestampFormat = TimestampFormat.SECONDS
    timestamp_field: str = ""  #: the timestamp is this field of the signed JSON body
    tolerance_seconds: int | None = None  #: how old a signed time may be; None: the provider signs no time
    key: KeyForm = "text"
    escapes: bool = False  #: may sign the body with its slashes and all beyond ASCII escaped as JSON may (Box)
    partial: bool = False  #: signs some fields and not the body: whoever saw a delivery can change the rest
    id_headers: tuple[str, ...] = ()  #: name a delivery for people; no key, unless the template has {id}
    kind_headers: tuple[str, ...] = ()  #: say what an event is, where the same bytes are sent as several; not signed
    kinds: frozenset[str] = frozenset()  #: what they may say; nothing else makes another event of the same bytes
    id_field: str = ""  #: dotted path of the delivery's id in the signed JSON body
    challenge: ChallengeKind | None = None
    certificate: Certificate | None = None
    jwt: JwtRules | None = None
    facts: Facts = Facts()
    parts: tuple[tuple[bytes, str], ...] = field(init=False, repr=False, compare=False)  #: the template, split once

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _split(self.template))
        fields = [name for _, name in self.parts if name]
        signs_body = "body" in fields or self.form is not Form.TEMPLATE or self.partial or self.bearer
        dated = any(names.timestamp for names in self.names) or self.layout in (Layout.STAMPED, Layout.PAIRS)
        if not set(fields) <= (_CERTIFIED_FIELDS if self.certificate else _FIELDS) or not signs_body:
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
    def standard_keys(self) -> bool:
        return self.key == "standard"

    @property
    def asymmetric(self) -> bool:
        return self.algorithm in ("ed25519", "ecdsa")

    @property
    def published(self) -> bool:
        """Verified with keys that the provider publishes; the secret says whose deliveries are meant for us."""
        return self.certificate is not None or (self.jwt is not None and bool(self.jwt.keys))

    @property
    def bearer(self) -> bool:
        """What proves a delivery does not depend on it: whoever has seen one can send anything."""
        return self.algorithm == "token" or (self.jwt is not None and not self.jwt.body_claim)

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
        fields = {name for _, name in self.parts} if self.place is SignaturePlace.HEADER else set()
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
