"""The exact bytes that a signature covers, and the digest of them as a provider writes it."""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from zlib import crc32

from millrace.signatures.errors import RefusalReason, SignatureInvalid
from millrace.signatures.request import MAX_HEADER_CHARACTERS, WebhookRequest
from millrace.signatures.scheme import Form, Scheme, SignaturePlace

_MAX_FORM_FIELDS = 2_000
#: Adyen's fields of a notification, in the order in which they are signed.
_ADYEN = (
    "pspReference",
    "originalReference",
    "merchantAccountCode",
    "merchantReference",
    "amount.value",
    "amount.currency",
    "eventCode",
    "success",
)
_CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
#: The signed fields of Amazon's envelope in their order, by its type; a subject only where there is one.
_SNS = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": _CONFIRMATION,
    "UnsubscribeConfirmation": _CONFIRMATION,
}


def messages(
    scheme: Scheme, request: WebhookRequest, timestamp: str, delivery_id: str, secret: str = ""
) -> tuple[bytes, ...]:
    """Every byte string that a right signature of this request may cover: one for each spelling of a signed URL.

    `secret` is what a template with {secret} signs.

    Raises SignatureInvalid where the request cannot have been signed at all.
    """
    if scheme.form is Form.TWILIO:
        return _twilio(request)
    if scheme.form is Form.ADYEN:
        return (_adyen(request),)
    if scheme.form is Form.SNS:
        return (_sns(request),)
    urls = (request.url, *request.other_urls) if "{url}" in scheme.template else ("",)
    texts = {"id": delivery_id, "timestamp": timestamp, "secret": secret}
    if "{crc32}" in scheme.template:
        texts["crc32"] = str(crc32(request.body))
    bodies = dict.fromkeys((request.body, _escaped(request.body)) if scheme.escapes else (request.body,))
    return tuple(_filled(scheme, body, {**texts, "url": url}) for url in urls for body in bodies)


def _escaped(body: bytes) -> bytes:
    """The body with slashes and all beyond ASCII as JSON may escape them; as it is, where it is no text."""
    try:
        units = body.decode("utf-8").encode("utf-16-be")
    except UnicodeDecodeError:
        return body
    codes = [int.from_bytes(units[at : at + 2]) for at in range(0, len(units), 2)]
    text = "".join(chr(code) if code < 0x7F else f"\\u{code:04x}" for code in codes)
    return re.sub(r"(?<!\\)/", r"\\/", text).encode("ascii")


def _filled(scheme: Scheme, body: bytes, texts: dict[str, str]) -> bytes:
    pieces: list[bytes] = []
    for literal, name in scheme.parts:
        pieces.append(literal)
        if name:
            pieces.append(body if name == "body" else encoded(texts[name]))
    return b"".join(pieces)


def part(scheme: Scheme, request: WebhookRequest, name: str) -> str:
    """A header, parameter or field that a proof is made of. Raises SignatureInvalid where it is not there once."""
    if scheme.place is SignaturePlace.HEADER:
        return request.headers.one(name)
    if scheme.place is SignaturePlace.QUERY:
        found: object = request.parameter(name)
    else:
        found = _agreed(request.object_document(), name)
    text = str(found) if isinstance(found, str) or type(found) is int else ""
    if not text:
        raise SignatureInvalid(RefusalReason.MISSING_HEADER)
    if len(text) > MAX_HEADER_CHARACTERS:
        raise SignatureInvalid(RefusalReason.MALFORMED)
    return text


def digest(scheme: Scheme, key: bytes, message: bytes) -> bytes:
    """The HMAC of a message as the provider writes it, prefix left out; of a token the token."""
    found = key if scheme.algorithm == "token" else hmac.digest(key, message, scheme.algorithm)
    return written(scheme, found)


def written(scheme: Scheme, proof: bytes) -> bytes:
    """Bytes in the scheme's encoding."""
    match scheme.encoding:
        case "plain":
            return proof
        case "base64":
            return b64encode(proof)
        case "base64url":
            return urlsafe_b64encode(proof).rstrip(b"=")
        case "hex_upper":
            return proof.hex().upper().encode("ascii")
    return proof.hex().encode("ascii")


def at_path(document: Any, path: str) -> Any:
    """What lies at a dotted path of a JSON document, a number being a place in a list; None where nothing does."""
    found = document
    for step in path.split("."):
        if isinstance(found, list) and step.isdigit() and len(step) < 4:
            found = found[int(step)] if int(step) < len(found) else None
        else:
            found = found.get(step) if isinstance(found, dict) else None
    return found


def _agreed(document: Any, path: str) -> Any:
    """What lies at a path; with a `*` in it, what lies there in every item of a list, where all have the same."""
    before, star, after = path.partition(".*.")
    if not star:
        return at_path(document, path)
    items = at_path(document, before)
    found = [at_path(item, after) for item in items] if isinstance(items, list) else []
    return found[0] if found and all(type(one) is str and one == found[0] for one in found) else None


def _adyen(request: WebhookRequest) -> bytes:
    """The values of the signed fields of the one notification, joined by colons."""
    items = request.object_document().get("notificationItems")
    if not isinstance(items, list) or len(items) != 1:
        raise SignatureInvalid(RefusalReason.MALFORMED)  # of a second one nothing would be signed
    item = at_path(items[0], "NotificationRequestItem")
    values = [at_path(item, name) for name in _ADYEN]
    if any(isinstance(value, dict | list | float | bool) for value in values):
        raise SignatureInvalid(RefusalReason.MALFORMED)
    return encoded(":".join("" if value is None else str(value) for value in values))


def _sns(request: WebhookRequest) -> bytes:
    """The signed fields of Amazon's envelope. What is not text, or of another type, was never signed."""
    document = request.object_document()
    names = _SNS.get(str(document.get("Type")))
    if names is None:
        raise SignatureInvalid(RefusalReason.MALFORMED)
    signed = [name for name in names if not (name == "Subject" and document.get(name) is None)]
    if not all(isinstance(document.get(name), str) for name in signed):
        raise SignatureInvalid(RefusalReason.MALFORMED)
    return encoded("".join(f"{name}\n{document[name]}\n" for name in signed))


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
