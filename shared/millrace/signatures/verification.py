"""Whether a request comes from its provider.

    read the headers ─► timestamp near now ─► HMAC of every secret against every signature ─► Verified
          │                    │                               │
          └────────────────────┴───────────────────────────────┴──► SignatureInvalid(reason)

No clock is read here, and only `authenticate` fetches: secrets that may have been rotated since they were read. Every
secret is tried against every signature, whatever matched before, with comparisons that take the same time for right
and wrong.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import field

from millrace.model.values import dataclass
from millrace.signatures.challenges import could_be_crc_token
from millrace.signatures.covered import at_path, digest, messages, part, written
from millrace.signatures.errors import ConfigurationMissing, RefusalReason, SignatureInvalid
from millrace.signatures.keys import Secret, unbase64, unhex
from millrace.signatures.published import KeyAddress, PublishedKeys
from millrace.signatures.request import MAX_HEADER_CHARACTERS, WebhookRequest, is_plain
from millrace.signatures.scheme import ChallengeKind, Layout, Names, Scheme, TimestampFormat
from millrace.signatures.secrets import SecretSource
from millrace.signatures.timestamps import clock_reading, demand_near

_MAX_SIGNATURES = 16


@dataclass(frozen=True, slots=True)
class Verified:
    """Proof that a request was signed with one of our live secrets."""

    secret: Secret
    signed_at_ms: int | None  #: the provider's own clock; None where it signs no time
    delivery_id: str | None  #: the provider's name for this delivery
    delivery_id_signed: bool  #: False: anyone on the way may have changed the id
    content: str = field(repr=False)  #: SHA-256 of what was signed; of the body, where a time is signed with it

    @property
    def secret_name(self) -> str:
        return self.secret.name


@dataclass(frozen=True, slots=True)
class _Claim:
    """What a request says about itself, unproven."""

    signatures: tuple[bytes, ...]
    asymmetric: tuple[bytes, ...]
    timestamp: str
    delivery_id: str


def verify(
    scheme: Scheme,
    request: WebhookRequest,
    secrets: Sequence[Secret],
    now_ms: int,
    keys: PublishedKeys | None = None,
) -> Verified:
    """Prove that a request was signed with one of these secrets, at about this time.

    Raises SignatureInvalid with a `reason` for every request that does not prove it, and nothing else for any
    request. Raises ConfigurationMissing where no secret is given, none is live, or one has the wrong form, and
    KeysUnavailable where the provider's published keys cannot be had. Costs one HMAC of the body for each secret.
    """
    if not any(secret.live(now_ms) for secret in secrets):
        raise ConfigurationMissing(f"no live secret among {[secret.name for secret in secrets]}")
    if scheme.jwt is not None or scheme.certificate is not None:
        return _proven(scheme, request, secrets, now_ms, keys)
    claim = _read(scheme, request)
    signed_at = clock_reading(scheme.clock, claim.timestamp) if claim.timestamp else None
    if signed_at is not None:
        demand_near(scheme, signed_at, now_ms)
    if scheme.challenge is ChallengeKind.X and could_be_crc_token(request.body):
        raise SignatureInvalid(RefusalReason.MALFORMED)
    covered = messages(scheme, request, claim.timestamp, claim.delivery_id)
    secret, message = _matching(scheme, claim, covered, secrets, now_ms)
    if scheme.timestamp_field:
        signed_at = _body_clock(scheme, request)
        demand_near(scheme, signed_at, now_ms)
    delivery_id, signed = _delivery(scheme, request, claim.delivery_id)
    content = request.body if claim.timestamp else message
    return Verified(secret, signed_at, delivery_id, signed, hashlib.sha256(content).hexdigest())


def _proven(
    scheme: Scheme, request: WebhookRequest, secrets: Sequence[Secret], now_ms: int, keys: PublishedKeys | None
) -> Verified:
    """Prove a request by a token or a certificate; what they need is imported only here."""
    if keys is None:
        keys = PublishedKeys(_no_keys, lambda: now_ms)
    if scheme.jwt is not None:
        from millrace.signatures.tokens import proven_by_token

        proof = proven_by_token(scheme, scheme.jwt, request, secrets, now_ms, keys)
    else:
        from millrace.signatures.certified import certified

        proof = certified(scheme, request, secrets, now_ms, keys)
    delivery_id, signed = proof.delivery_id, proof.delivery_id is not None
    if delivery_id is None:
        delivery_id, signed = _delivery(scheme, request, "")
    content = hashlib.sha256(proof.content).hexdigest()
    return Verified(proof.secret, proof.signed_at_ms, delivery_id, signed, content)


def _no_keys(address: KeyAddress) -> bytes | None:
    raise ConfigurationMissing(f"{address.url}: published keys cannot be fetched here")


def _matching(
    scheme: Scheme, claim: _Claim, signed: tuple[bytes, ...], secrets: Sequence[Secret], now_ms: int
) -> tuple[Secret, bytes]:
    """The first live secret that made one of the signatures, and of what; all are tried before any is named."""
    live: list[tuple[Secret, bytes]] = []
    lapsed: list[tuple[Secret, bytes]] = []
    for secret in secrets:
        for message in signed:
            if _made(scheme, secret, claim, message):
                (live if secret.live(now_ms) else lapsed).append((secret, message))
    if live:
        return live[0]
    raise SignatureInvalid(RefusalReason.SECRET_NOT_LIVE if lapsed else RefusalReason.MISMATCH)


def _made(scheme: Scheme, secret: Secret, claim: _Claim, message: bytes) -> int:
    """How many of the claimed signatures this secret made of the message."""
    if scheme.standard_keys and secret.public:
        return sum([secret.verifies(unbase64(text.decode("ascii", "replace")), message) for text in claim.asymmetric])
    if scheme.asymmetric:
        proofs = [_decoded(scheme, candidate) for candidate in claim.signatures]
        return sum([proof != b"" and secret.proves(scheme, proof, message) for proof in proofs])
    expected = digest(scheme, secret.key(scheme.key), message)
    return sum([hmac.compare_digest(expected, candidate) for candidate in claim.signatures])


def _decoded(scheme: Scheme, text: bytes) -> bytes:
    """The bytes of a signature; none where it is not written as the scheme writes it, to the letter."""
    decode = unbase64 if scheme.encoding == "base64" else unhex
    found = decode(text.decode("ascii", "replace"))
    return found if written(scheme, found) == text else b""


def _read(scheme: Scheme, request: WebhookRequest) -> _Claim:
    names = next((names for names in scheme.names if _sent(names, request)), scheme.names[0])
    if scheme.layout is Layout.NUMBERED:
        stamp, items = "", _numbered(request, names.signature)
    else:
        stamp, items = _split(scheme, _signature_text(scheme, request, names))
    if names.timestamp:
        stamp = part(scheme, request, names.timestamp)
    delivery_id = part(scheme, request, names.id) if scheme.signs_id else ""
    if scheme.signs_id and not is_plain(delivery_id):
        raise SignatureInvalid(RefusalReason.MALFORMED)
    prefix = "v1," if scheme.layout is Layout.SPACES else scheme.prefix
    claimed = tuple(_bytes(item.removeprefix(prefix)) for item in items if item.startswith(prefix))
    asymmetric = tuple(_bytes(item.removeprefix("v1a,")) for item in items if item.startswith("v1a,"))
    if not (claimed or asymmetric) or len(items) > _MAX_SIGNATURES:
        raise SignatureInvalid(RefusalReason.MALFORMED)
    return _Claim(claimed, asymmetric if scheme.standard_keys else (), stamp, delivery_id)


def _numbered(request: WebhookRequest, first: str) -> list[str]:
    """The signatures of the headers that are numbered from the first on, wherever one is left out."""
    named = [f"{first[:-1]}{number}" for number in range(1, _MAX_SIGNATURES + 1)]
    return [request.headers.one(name) for name in named if name in request.headers] or [request.headers.one(first)]


def _signature_text(scheme: Scheme, request: WebhookRequest, names: Names) -> str:
    values = request.headers.all(names.signature)
    if scheme.layout is Layout.COMMAS and values and sum(map(len, values)) <= MAX_HEADER_CHARACTERS:
        return ",".join(values) or request.headers.one(names.signature)
    return part(scheme, request, names.signature)


def _sent(names: Names, request: WebhookRequest) -> bool:
    return any(name and name in request.headers for name in (names.signature, names.timestamp, names.id))


def _split(scheme: Scheme, value: str) -> tuple[str, list[str]]:
    """The timestamp inside a signature header, where its layout has one, and its signatures."""
    if scheme.layout is Layout.SINGLE:
        return "", [value]
    if scheme.layout is Layout.SPACES:
        return "", value.split(" ")
    pairs = value.split(" ") if scheme.layout is Layout.PAIRS else [value]
    items = [item.strip(" \t") for pair in pairs for item in pair.split(scheme.separator)]
    if scheme.layout is Layout.COMMAS:
        return "", items
    stamps = [item.removeprefix(scheme.stamp_prefix) for item in items if item.startswith(scheme.stamp_prefix)]
    if len(stamps) == len(pairs):
        stamps = list(dict.fromkeys(stamps))
    joined = scheme.separator != "," and "," in value  # a gateway joins what was sent twice
    if len(stamps) != 1 or not stamps[0] or joined:
        raise SignatureInvalid(RefusalReason.MALFORMED)
    return stamps[0], items


def _bytes(text: str) -> bytes:
    # Nothing is replaced: another text is always other bytes, and so can match nothing.
    return text.encode("utf-8", "surrogatepass")


def _body_clock(scheme: Scheme, request: WebhookRequest) -> int:
    stamp = request.object_document().get(scheme.timestamp_field)
    if type(stamp) is not int:
        raise SignatureInvalid(RefusalReason.MALFORMED)
    return stamp if scheme.clock is TimestampFormat.MILLISECONDS else stamp * 1000


def _delivery(scheme: Scheme, request: WebhookRequest, signed_id: str) -> tuple[str | None, bool]:
    """The provider's id of this delivery, and whether the signature covers it."""
    if signed_id:
        return signed_id, True
    if scheme.id_field:
        found = at_path(request.object_document(), scheme.id_field)
        text = str(found) if isinstance(found, str) or type(found) is int else ""
        return (text, True) if is_plain(text) else (None, False)
    sent = [request.headers.all(name) for name in scheme.id_headers]
    if sent and all(len(values) == 1 and is_plain(values[0]) for values in sent):
        return ":".join(values[0] for values in sent), False
    return None, False


def authenticate(
    scheme: Scheme,
    request: WebhookRequest,
    source: SecretSource,
    references: Sequence[str],
    now_ms: int,
    keys: PublishedKeys | None = None,
) -> Verified:
    """Verify with the secrets behind these references; where none fits, once more if they turn out to be newer.

    Raises what `verify` and `SecretSource.resolve` raise. Costs a call to the store only for a first use, an aged
    copy, or a mismatch that is the first within a minute.
    """
    secrets = source.resolve(references)
    try:
        return verify(scheme, request, secrets, now_ms, keys)
    except (SignatureInvalid, ConfigurationMissing) as refused:
        may_be_rotation = not isinstance(refused, SignatureInvalid) or refused.reason.may_be_rotation
        if not (may_be_rotation and source.refresh(references)):
            raise
    return verify(scheme, request, source.resolve(references), now_ms, keys)


def idempotency_key(scheme: Scheme, request: WebhookRequest, verified: Verified) -> str:
    """One key for one delivery, the same on every repeat of it.

    - A signed delivery id is the key: nobody but the provider can choose it.
    - Otherwise the signed bytes are. An id that is not signed never counts: under another one a captured delivery
      would run again, and under a later delivery's it would make that one look like a repeat, and lose it.
    - Where a provider sends the same bytes as several events (Shopify's topics), each of its known kinds is one.

    The scheme's name leads, so that two providers of one queue cannot meet in a key.
    """
    if verified.delivery_id is not None and verified.delivery_id_signed:
        return f"{scheme.name}:id:{verified.delivery_id}"
    key = f"{scheme.name}:sha256:{verified.content}"
    kind = next((kind for name in scheme.kind_headers for kind in request.headers.all(name)), "")
    return f"{key}:{kind}" if kind in scheme.kinds else key
