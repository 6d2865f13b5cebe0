"""The providers that Millrace knows, one row each, and how a definition becomes a scheme."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from millrace.signatures.errors import ConfigurationMissing
from millrace.signatures.provider_rows import DETAILED
from millrace.signatures.provider_table import PLAIN
from millrace.signatures.published_rows import PUBLISHED
from millrace.signatures.scheme import Facts, Layout, Names, Scheme, SignaturePlace, TimestampFormat

#: Tolerance where a definition names a timestamp header and says no more.
DEFAULT_TOLERANCE_SECONDS = 300

_ROWS = (*DETAILED, *PUBLISHED, *PLAIN)

#: Names that say nothing about who signs.
_ANYBODYS = frozenset({"authorization", "signature", "webhook-signature", "x-hub-signature", "x-signature"})

PRESETS: Mapping[str, Scheme] = {row.name: row for row in _ROWS}

#: What a definition may say beyond the header, and where only some words will do, which.
GENERIC: Mapping[str, tuple[str, ...] | None] = {
    "prefix": None,
    "algorithm": ("sha256", "sha1", "sha512", "token", "ed25519", "ecdsa"),
    "encoding": ("hex", "hex_upper", "base64", "base64url", "plain"),
    "key": ("text", "base64", "hex", "standard"),
    "place": tuple(SignaturePlace),
    "separator": (",", ";", " ", "&"),
    "timestamp_header": None,
    "timestamp_prefix": None,
    "timestamp_unit": tuple(TimestampFormat),
    "template": None,
    "tolerance_seconds": None,
    "id_header": None,
    "success_status": None,
    "overload_status": None,
}


def preset(name: str) -> Scheme:
    """The scheme of a provider. Raises ConfigurationMissing for a name that is not in the table."""
    if name not in PRESETS:
        raise ConfigurationMissing(f"no provider {name!r}; known are {', '.join(sorted(PRESETS))}")
    return PRESETS[name]


def for_header(header: str) -> Scheme | None:
    """The provider that signs in this header, where its name alone says how: that of GitHub is Meta's too, signed the
    same way; `Webhook-Signature` and `X-Signature` are anybody's.
    """
    if header.lower() in _ANYBODYS:
        return None
    found = [
        row for row in _ROWS if row.place is SignaturePlace.HEADER and row.algorithm not in ("token", "jwt", "rsa")
    ]
    found = [row for row in found if any(names.signature == header.lower() for names in row.names)]
    return found[0] if len({_proof(row) for row in found}) == 1 else None


def _proof(row: Scheme) -> tuple[Any, ...]:
    """What two providers must have in common to be told apart by nothing."""
    return row.names, row.layout, row.prefix, row.algorithm, row.encoding, row.template, row.key


def generic(header: str, **settings: Any) -> Scheme:
    """A scheme from a definition's `verify_hmac`.

    `settings` are those of `GENERIC`, as the definitions' README describes them. Only what is given differs from `hex
    HMAC-SHA256 of the body`. Raises ConfigurationMissing for anything that could not verify.
    """
    _check_generic(header, settings)
    place, algorithm = SignaturePlace(settings.get("place", "header")), settings.get("algorithm", "sha256")
    listed = [settings.get("timestamp_header") or "", settings.get("id_header") or ""]
    stamp, name = (given.lower() if place is SignaturePlace.HEADER else given for given in listed)
    dated = bool(stamp or settings.get("timestamp_prefix"))
    return Scheme(
        "generic",
        (Names(header.lower() if place is SignaturePlace.HEADER else header, stamp, name),),
        place=place,
        layout=_layout(settings),
        separator=settings.get("separator") or ",",
        stamp_prefix=settings.get("timestamp_prefix") or "t=",
        prefix=settings.get("prefix") or "",
        algorithm=algorithm,
        encoding=settings.get("encoding", "plain" if algorithm == "token" else "hex"),
        key=settings.get("key", "text"),
        template=settings.get("template") or ("{timestamp}.{body}" if dated else "{body}"),
        partial=place is SignaturePlace.BODY and algorithm != "token",
        clock=TimestampFormat(settings.get("timestamp_unit", "seconds")),
        tolerance_seconds=settings.get("tolerance_seconds", DEFAULT_TOLERANCE_SECONDS) if dated else None,
        id_headers=(name,) if name and place is SignaturePlace.HEADER else (),
        facts=Facts(settings.get("success_status", 202), settings.get("overload_status", 503)),
    )


def _layout(settings: Mapping[str, Any]) -> Layout:
    if settings.get("timestamp_prefix"):
        return Layout.STAMPED
    return Layout.COMMAS if settings.get("separator") else Layout.SINGLE


def _check_generic(header: str, settings: Mapping[str, Any]) -> None:
    wrong = [f"{key} is no setting" for key in settings if key not in GENERIC]
    wrong += [
        f"{key} is one of {', '.join(map(repr, words))}"
        for key, words in GENERIC.items()
        if words and key in settings and settings[key] not in words
    ]
    dated = settings.get("timestamp_header") or settings.get("timestamp_prefix")
    if not dated and {"tolerance_seconds", "timestamp_unit"} & set(settings):
        wrong.append("a tolerance or unit needs a timestamp_header or a timestamp_prefix")
    if settings.get("timestamp_header") and settings.get("timestamp_prefix"):
        wrong.append("timestamp_header and timestamp_prefix exclude each other")
    if settings.get("algorithm") == "token" and (dated or settings.get("template") or settings.get("key")):
        wrong.append("a token is sent as it is: nothing is signed")
    if settings.get("encoding") == "plain" and settings.get("algorithm") != "token":
        wrong.append("only a token is sent plain")
    if settings.get("algorithm") in ("ed25519", "ecdsa") and (
        settings.get("key") not in ("base64", "hex") or settings.get("encoding", "hex") not in ("hex", "base64")
    ):
        wrong.append("a public key is given as `key` base64 or hex, its signature as hex or base64")
    unsigned_body = settings.get("algorithm") == "token" or "{body}" not in (settings.get("template") or "{body}")
    if settings.get("place") == SignaturePlace.BODY and not unsigned_body:
        wrong.append("a signature in the body cannot cover the body: give a template of {timestamp} and {id}")
    if not header:
        wrong.append("a header is needed")
    if wrong:
        raise ConfigurationMissing(f"verify_hmac on {header!r}: {'; '.join(wrong)}")


def scheme_from(settings: Mapping[str, Any]) -> Scheme:
    """The scheme of a compiled webhook definition.

    `{"provider": "github"}` is a row of the table (its tolerance_seconds may be set); `{"header": …}` alone is the
    provider that signs in that header, where there is one; anything more is `generic`.
    """
    given = {key: value for key, value in settings.items() if value is not None}
    provider = given.pop("provider", None)
    if provider is None:
        known = for_header(given.get("header", "")) if set(given) <= {"header"} else None
        return known or generic(given.pop("header", ""), **given)
    row = preset(provider)
    if set(given) - {"tolerance_seconds"} or (given and not row.timed):
        raise ConfigurationMissing(f"provider {provider!r} takes no {', '.join(sorted(given))}")
    return replace(row, **given)
