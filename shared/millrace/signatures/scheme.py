"""How a provider signs, as data: where the parts are, how they are joined, how the digest is written.

A preset and a definition's own `verify_hmac` are both a `Scheme`; nothing else tells providers apart.
"""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from millrace.signatures.errors import ConfigurationMissing

Algorithm = Literal["sha1", "sha256", "sha512"]
Encoding = Literal["hex", "hex_upper", "base64"]

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
    tolerance_seconds: int | None = None  #: None: the provider signs no time
    standard_keys: bool = False  #: secrets are `whsec_` or `whpk_`
    id_headers: tuple[str, ...] = ()  #: together they name a delivery; not signed unless the template has {id}
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


def _split(template: str) -> tuple[tuple[bytes, str], ...]:
    """Each literal of a template with the field that follows it; the empty field where none does."""
    try:
        parsed = list(string.Formatter().parse(template))
    except ValueError:
        raise ConfigurationMissing(f"template {template!r}: a brace is not closed") from None
    if any(spec or conversion for _, _, spec, conversion in parsed):
        raise ConfigurationMissing(f"template {template!r}: a field is a bare name in braces")
    return tuple((literal.encode("utf-8"), name or "") for literal, name, _, _ in parsed)
