"""The exact bytes that a provider signs."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode

from millrace.signatures.errors import RefusalReason, SignatureInvalid
from millrace.signatures.request import WebhookRequest
from millrace.signatures.scheme import Form, Scheme

FORM_TYPE = "application/x-www-form-urlencoded"
_MAX_FORM_FIELDS = 2_000


def messages(scheme: Scheme, request: WebhookRequest, timestamp: str, delivery_id: str) -> tuple[bytes, ...]:
    """Every byte string that a right signature of this request may cover; one, except for Twilio's ports.

    Raises SignatureInvalid where the request cannot have been signed at all.
    """
    if scheme.form is Form.TWILIO:
        return _twilio(request)
    filled = {"id": delivery_id, "timestamp": timestamp, "url": request.url}
    pieces: list[bytes] = []
    for literal, name in scheme.parts:
        pieces.append(literal)
        if name:
            pieces.append(request.body if name == "body" else encoded(filled[name]))
    return (b"".join(pieces),)


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
    return tuple(encoded(url) + fields for url in _with_and_without_port(request.url))


def _form_fields(request: WebhookRequest) -> bytes:
    from urllib.parse import parse_qsl

    if not request.body:
        return b""
    content_type = request.headers.one("content-type").partition(";")[0].strip().lower()
    if content_type != FORM_TYPE:
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
