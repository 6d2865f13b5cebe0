"""Deliveries signed with RSA, by a certificate that they name (Amazon SNS, PayPal).

Whose certificate counts is said by its address alone: the row's pattern names the provider's own host, and it is
fetched over TLS from there. The certificate must be in its time and, where the row says so, of the provider's name.
The secret says which deliveries are meant for us: without it any other customer of the provider could send.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from millrace.signatures.covered import messages, part
from millrace.signatures.errors import ConfigurationMissing, RefusalReason, SignatureInvalid
from millrace.signatures.keys import Secret, unbase64
from millrace.signatures.published import KeyAddress, PublishedKeys
from millrace.signatures.request import WebhookRequest, is_plain
from millrace.signatures.scheme import Certificate, Form, Scheme
from millrace.signatures.timestamps import clock_reading, demand_near

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

_SMALLEST_KEY_BITS = 2048


class Proven(NamedTuple):
    """What a proof says."""

    secret: Secret
    signed_at_ms: int | None
    delivery_id: str | None  #: only where it is part of what was proven
    content: bytes  #: what was proven


@dataclass(frozen=True, slots=True)
class SigningCertificate:
    """What counts of a certificate."""

    key: RSAPublicKey
    common_name: str
    from_ms: int
    until_ms: int

    def proves(self, signature: bytes, message: bytes, algorithm: str) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

        # Amazon's first version signs a SHA-1; a topic can be set to the second.
        used = hashes.SHA1() if algorithm == "sha1" else hashes.SHA256()  # noqa: S303
        try:
            self.key.verify(signature, message, PKCS1v15(), used)
        except InvalidSignature:
            return False
        return True


def read_certificate(document: bytes) -> SigningCertificate:
    """The first certificate of a PEM document. Raises ValueError for anything else."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.x509.oid import NameOID

    found = x509.load_pem_x509_certificate(document)
    key = found.public_key()
    if not isinstance(key, RSAPublicKey) or key.key_size < _SMALLEST_KEY_BITS:
        raise ValueError("no RSA key of a size that counts")
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    begin, end = (int(moment.timestamp() * 1000) for moment in (found.not_valid_before_utc, found.not_valid_after_utc))
    return SigningCertificate(key, str(names[0].value) if names else "", begin, end)


def certified(
    scheme: Scheme, request: WebhookRequest, secrets: Sequence[Secret], now_ms: int, keys: PublishedKeys
) -> Proven:
    """Prove a request by the certificate that it names. Everything that needs none is checked before it is fetched.

    Raises SignatureInvalid, and KeysUnavailable where the certificate cannot be had.
    """
    names, rules = scheme.names[0], scheme.certificate
    if rules is None:
        raise ConfigurationMissing(f"scheme {scheme.name!r} names no certificate")
    signature = unbase64(part(scheme, request, names.signature))
    stamp, delivery_id = part(scheme, request, names.timestamp), part(scheme, request, names.id)
    signed_at = clock_reading(scheme.clock, stamp)
    demand_near(scheme, signed_at, now_ms)
    algorithm = dict(rules.algorithms).get(part(scheme, request, rules.algorithm_name))
    if not signature or not is_plain(delivery_id) or algorithm is None:
        raise SignatureInvalid(RefusalReason.MALFORMED)
    address, meant = _address(scheme, rules, request, secrets)
    found = keys.get(KeyAddress(address), read_certificate)
    trusted = found.common_name.endswith(rules.subject) and found.from_ms <= now_ms <= found.until_ms
    lapsed = False
    for secret in meant:
        (message,) = messages(scheme, request, stamp, delivery_id, secret.value)
        if trusted and found.proves(signature, message, algorithm):
            if secret.live(now_ms):
                return Proven(secret, signed_at, delivery_id, message)
            lapsed = True
    raise SignatureInvalid(RefusalReason.SECRET_NOT_LIVE if lapsed else RefusalReason.MISMATCH)


def _address(
    scheme: Scheme, rules: Certificate, request: WebhookRequest, secrets: Sequence[Secret]
) -> tuple[str, list[Secret]]:
    """The certificate's address, and the secrets that the delivery can be meant for."""
    shape = re.fullmatch(rules.address, part(scheme, request, rules.name), re.ASCII)
    if shape is None:
        raise SignatureInvalid(RefusalReason.MALFORMED)
    if scheme.form is not Form.SNS:
        return shape[0], list(secrets)
    topic = part(scheme, request, "TopicArn")
    meant = [secret for secret in secrets if secret.value == topic]
    if not meant or topic.split(":")[3:4] != [shape["region"]]:
        raise SignatureInvalid(RefusalReason.MISMATCH)
    return shape[0], meant
